"""The columnar reader: a compiled loop that reads batches of messages into columns."""
