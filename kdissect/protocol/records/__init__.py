"""Records as producers write them: record batches (magic 2) and message sets (magic 0 and 1).

- `batches` finds the borders of batches in a records field and reads their headers. `batch_summary` is its
  compiled sibling, which fills a row of numbers for each field.
- `record_decoder` reads the records themselves, `record_encoder` writes them as one batch.
- `compression` decompresses within bounds; `crc32c` checks and patches checksums.
"""
