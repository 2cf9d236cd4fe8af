"""kdissect for Python programs without Spark: the exchanges of captures, and the codec of Kafka's messages.

- `captured_exchanges.read` reads captures and yields typed exchanges, lazily and in order.
- `message_functions` decodes and encodes single requests and responses.

Both are offered as `kdissect.read`, `kdissect.decode_request` and so on; docs/library.md shows them at work.
"""
