"""Meaning of Kafka's bytes: nothing here reads a file or a socket.

In come bytes of messages, out come values; faults in the bytes are values too. The packages, from facts to
their users:

- `schema` has every message of Kafka in every version, as text files and as the values that they become.
- `api_keys` and `error_codes` name the numbers of APIs and errors, and the classes of them that mean one
  thing. `enums` has the words for all other numbers that stand for words, `releases` which versions a release
  of Kafka serves.
- `codec` turns messages into dicts and lists, and back into the same bytes. `visitor` walks such trees:
  all code that finds or replaces values by their field uses it. `redact` removes secrets.
- `columnar` reads only some values, of many messages at once, into columns, by a compiled loop.
- `records` reads and writes what producers write: record batches, message sets, their compression and
  checksums. `metadata_records` tells the records of a cluster's own metadata apart.
- `kafka07` is the protocol before Kafka 0.8, which has nothing in common with the later ones.
- `integers` are the compiled readers of integers that the loops here and in `streams` use.
"""
