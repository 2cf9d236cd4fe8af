"""Record sets made by kafka-python: what the reader of records is held against."""

from collections.abc import Iterator
from typing import Any

from kafka.record import MemoryRecordsBuilder

CODECS = {0: (0, 1, 2), 1: (0, 1, 2, 3), 2: (0, 1, 2, 3, 4)}  # that kafka-python can write, by magic
FORMATS = [(magic, codec) for magic, codecs in CODECS.items() for codec in codecs]
RECORDS: tuple[dict[str, Any], ...] = (
    {
        "timestamp": 1_700_000_000_000,
        "key": b"key",
        "value": b"value",
        "headers": [("trace", b"1"), ("empty", b"")],
    },
    {"timestamp": 1_700_000_000_005, "key": None, "value": b"v" * 200, "headers": []},
    {"timestamp": 1_600_000_000_000, "key": b"", "value": None, "headers": [("none", None)]},
)


def record_set(magic: int, codec: int, records: tuple[dict[str, Any], ...] = RECORDS) -> bytes:
    """Make a record set of one batch, or of messages, by kafka-python."""
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20)
    for record in records:
        builder.append(**{**record, "headers": record["headers"] if magic == 2 else []})
    builder.close()
    return bytes(builder.buffer())


def expected(
    magic: int,
) -> Iterator[tuple[int, int | None, bytes | None, bytes | None, list[tuple[str, Any]]]]:
    """Yield offset, timestamp, key, value and headers of every record in such a set."""
    for offset, record in enumerate(RECORDS):
        timestamp = record["timestamp"] if magic else None
        yield offset, timestamp, record["key"], record["value"], record["headers"] if magic == 2 else []
