"""Dumps: every exchange of a capture in time order, for people as text and for programs as JSON lines.

In come decoded exchanges from `exchanges.reader`, out go lines.

- `jsonl` makes the object of an exchange, its heading and its messages, and writes it as one line of JSON.
- `exchange_text` makes text of the same object: one line, or one line and a tree.
- `tree_text` writes the tree of a message, one field a line.
- `schema_text` and `kafka07_schema_text` answer `kdissect schema`: the APIs, and the fields of one message.
"""
