"""The schema of every Kafka message, as data.

- `messages/` are text files, one for each API key, written to be read and edited by people; see
  `messages/README.md`.
- `parser` has their grammar, `definition` the values that they become.
- `registry` is the entry point: all APIs by key and all other messages by name, read when first asked for.
"""
