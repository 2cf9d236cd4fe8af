"""The columnar reader: some values of many messages at once, as columns, by one compiled loop.

- `registers` is the table of the values that are kept: by the role that they have in the schema.
- `program` compiles a message at one version into a short program of integers. `program_cache` keeps the
  programs of all messages, one after another in one table.
- `vm` runs the programs over an arena of bytes; `vm_state` are the rows that it works with and writes.
- `batch_reader` is the entry point: bytes in, columns out, with room that grows and the faults in words.
"""
