"""The packets of chosen exchanges as a capture of their own, with a comment where each message begins.

In come captures and a filter, out goes one pcapng file. Captures are read twice, split by split, so memory
does not grow with them.

- `packet_selection` is the first reading: which exchanges are selected, which connections and times that
  means, and a comment for each message. `chosen_exchanges` decodes them, in several processes if there are
  many, and `message_comment` words the comments.
- `packet_match` decides for each packet of a split whether it belongs to what is selected.
- `slice_writer` is the second reading, and copies what matches. `source_blocks` reads what the record table
  leaves out: interfaces, flags, comments and names. `pcapng_writer` lays out blocks. `session_secrets` finds
  the secrets of the TLS sessions that are copied.
- With `--anonymize` there is a reading more: `anonymized_streams` has `anonymized_frames` rewrite every
  message (`blank_records` its records, `same_length_names` its names) and keeps them in a `stream_overlay`.
  `packet_rewrite` then writes packets from it; `packet_layers` finds their headers.
"""
