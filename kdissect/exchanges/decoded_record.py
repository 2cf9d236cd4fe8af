"""A record with its key, value and headers decoded: what `--where` tests, and what dumps show beside bytes.

In come a record, its topic and a decoder of payload, out goes a `DecodedRecord`.

- `fields` is the record as an expression sees it. A value that does not decode is null there, or text.
- `notes` are what stands beside the bytes: format, schema id and the decoded value, or the fault. Text and
  bytes without a schema need none.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kdissect.payload.payload_decoder import Payload, PayloadDecoder
from kdissect.payload.plain_reader import read_text
from kdissect.protocol.records.record_decoder import Record

UNNOTED = ("text", "bytes")


class RecordPlace(Protocol):
    """Place of a record in its capture."""

    @property
    def topic(self) -> str | None:
        """Return the name of the topic."""

    @property
    def partition(self) -> int | None:
        """Return the number of the partition."""


class DecodedRecord(NamedTuple):
    """Decoded key and value of a record; None for null."""

    key: Payload | None
    value: Payload | None

    def fields(self, record: Record, place: RecordPlace) -> dict[str, Any]:
        """Return the fields of the record for `--where`."""
        return {
            "key": self.key and self.key.value,
            "value": self.value and self.value.value,
            "headers": header_fields(record),
            "topic": place.topic,
            "partition": place.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
        }

    def notes(self, record: Record) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yield `key` and `value`, each with its note or None."""
        for part, payload, data in (("key", self.key, record.key), ("value", self.value, record.value)):
            yield part, payload and _note(payload, data)


def decode_record(record: Record, topic: str | None, decoder: PayloadDecoder) -> DecodedRecord:
    """Return a record's key and value decoded."""
    key, value = (
        decoder.decode(data, topic, part, record.headers)
        for data, part in ((record.key, "key"), (record.value, "value"))
    )
    return DecodedRecord(key, value)


def header_fields(record: Record) -> dict[str, str | None]:
    """Return headers by name, as text; other bytes are hex. The last of several of one name counts."""
    return {
        header.key.decode("utf-8", "replace"): None if header.value is None else header_text(header.value)
        for header in record.headers
    }


def header_text(data: bytes) -> str:
    """Return the value of a header as text, or as hex if it is none."""
    text = read_text(data)
    return data.hex() if text is None else text


def _note(payload: Payload, data: bytes | None) -> dict[str, Any] | None:
    if payload.fault is None and payload.format in UNNOTED:
        return None
    note: dict[str, Any] = {"format": payload.format}
    if isinstance(payload.schema_id, UUID):
        note["schema_guid"] = str(payload.schema_id)
    elif payload.schema_id is not None:
        note["schema_id"] = payload.schema_id
    if payload.fault is not None:
        return note | {"fault": payload.fault, "bytes": data}
    return note | {"fields": payload.value}
