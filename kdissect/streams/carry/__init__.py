"""Unfinished state of connections as a value, so that another process can go on with it.

`state_value` turns the tables of pass two into arrays and back, `object_values` does so for TLS sessions,
`split_numbers` keeps the numbers of splits small, and `value_bytes` writes all of it as bytes.
"""
