"""From batches of the public tables to the small tables of a partial report, which add up.

`partial_tables` defines those tables, and `partial_rows` adds up their rows. `calls`, `topics`, `first_seen`,
`finding_inputs` and `lag` fill them from exchanges and partitions, `row_limits` keeps them small. Below them
are `grouping` (columns as arrays, groups of rows), `histogram` (latencies that add up), `quantiles` and
`confidence`.
"""
