"""Decoded exchanges in the order in which they began: the one ordered reader, for dumps and replays.

In come the splits of captures, out goes one exchange after the other. Two readings are needed, since some
facts about the beginning of a capture stand at its end.

- `prescan` is the first reading: names of topic ids, addresses of nodes, SASL mechanisms, and the earliest
  time that each later part of the capture still holds.
- `reader` is the second one. It puts exchanges in order as soon as nothing earlier can come: `watermark` says
  what time that is, `external_sort` keeps what has to wait, in bounded memory.
- `connection_log` numbers the connections of both readings. One that is over leaves its row to a later one,
  so memory has the size of what is open at one time.
- `exchange` is one exchange as headers tell it, with the bytes of its frames; `decoded` adds its messages,
  decoded once.
- `exchange_workers` hands many of them to several processes, which make texts of them in order.
- `filter` applies the filters of the command line (`tables.filters`), to headers before an exchange waits, to
  messages after it. `field_search` finds the fields with a role, such as topic, in decoded messages.
- `describe` makes a tree for people and programs of a decoded message: names beside numbers, secrets
  redacted. `describe_records` does the same for the records in it, `kafka07_describe` for the protocol before
  Kafka 0.8.
- `anonymize_messages` gives a decoded exchange pseudonyms in place of names before any of that.

`dump` and `replay` import this package, which knows neither.
"""
