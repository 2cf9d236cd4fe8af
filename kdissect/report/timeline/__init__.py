"""The course of events: what exchanges did in each step of time, as tables of a partial that add up.

`grid` divides the time of a capture into steps, `timeline_tables` defines the tables, and `count` fills all
of them from batches of the public tables: with `exchange_columns` (exchanges and the ends of their
connections), `activity` (calls, errors and events), `positions` (offsets) and `count_examples`.
`count_signals` fills the finer tables of `signal_tables`.
"""
