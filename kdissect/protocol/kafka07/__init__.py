"""Kafka 0.7: the protocol before versions, correlation ids and client ids.

- `message_codec` decodes requests and responses, `message_sets` the messages that producers wrote.

Each later stage has one module for it: `streams.kafka07_framing` finds its frames in a stream,
`tables.kafka07_rows` makes their rows, `exchanges.kafka07_describe` their descriptions and
`dump.kafka07_schema_text` the text of this schema. Everything else knows only whether an exchange is of Kafka
0.7.
"""
