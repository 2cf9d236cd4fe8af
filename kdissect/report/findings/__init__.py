"""Findings: a table of rules over the merged figures; each says what is wrong, on what evidence, and what to look at next.

`scene` prepares what rules look at, `rules` holds the table, `finder.findings` runs it. A rule that has nothing to say is quiet.
"""
