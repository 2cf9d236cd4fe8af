"""The course of events: what exchanges did in each step of time, as tables of a partial that add up.

`grid` divides the time of a capture into steps, `timeline_tables` defines the tables, and `count` fills all
of them from batches of the public tables: with `exchange_columns` (exchanges and the ends of their
connections), `cells` (calls and errors), `topic_activity`, `positions` (offsets) and `producer_sequences`.
"""
