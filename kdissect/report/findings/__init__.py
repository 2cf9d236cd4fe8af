"""Findings: what is wrong in a capture, on what evidence, what it means, and what to look at next.

`rules` is the table of rules, `finder` runs it. `context` defines what rules look at and return, and
`observations` reads that from a partial. `responses`, `clients`, `groups`, `network`, `security` and
`capture` hold the rules by subject; they make evidence with `evidence` and `connection_evidence`. A rule that
finds nothing returns None.
"""
