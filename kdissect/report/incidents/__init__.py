"""Incidents: signals of one cause, with what it led to, ranked by what it did to clients.

    signals -> causes (table) -> cases -> diagnoses -> join -> incidents by impact

`cause` has the types: a `Cause` names the signals that it starts from, a function that judges a `Case`, and
the signals that it explains. `causes` is the table of all causes, and modules such as `slow_server_causes`
hold their functions. `join` finds the incidents, `impact` measures and words them.
"""
