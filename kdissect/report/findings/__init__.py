"""Findings: what is wrong in a capture, on what evidence, what it means, and what to look at next.

`rules` is the table of rules, `finder` runs it. `observations` reads from a partial what exchanges show.
`finding_context` has that beside all else that rules look at, and defines what they return. `responses`,
`clients`, `groups`, `network`, `security` and `capture` hold the rules by subject; they make evidence with
`evidence` and `connection_evidence`. A rule that finds nothing returns None.
"""
