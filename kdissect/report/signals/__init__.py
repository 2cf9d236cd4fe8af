"""Signals: dated, measured facts about servers, clients, groups, topics and paths, which judge nothing.

In comes a `signal_context.SignalContext` (merged partial tables, with names and findings), out go values of
`model.incidents.Signal`. `sources` lists the functions that make them, one module for each kind of subject,
and `kinds` every kind of signal with what it counts. `finding_signals` makes signals of what the rules found.
"""
