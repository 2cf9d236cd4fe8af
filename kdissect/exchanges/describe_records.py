"""The records of a message for people and programs: its batches, and on request the records in them.

In come the bytes of a records field, out goes a tree. Without records only the header of each batch (or
message of magic 0 and 1) is shown, and nothing that producers wrote. With them every batch has `records` with
offset, timestamp, key, value and headers; keys and values of control records are decoded. An error in
a batch is its `fault`. A last batch that is cut off is marked as `cut`, which is not a fault.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct
from typing import Any, NamedTuple

from kdissect.exchanges.decoded_record import decode_record
from kdissect.payload.payload_decoder import PayloadDecoder
from kdissect.payload.where import Test
from kdissect.protocol.codec.messages import decode_embedded
from kdissect.protocol.enums import TIMESTAMP_TYPES
from kdissect.protocol.metadata_records import RECORD_TYPES, metadata_header
from kdissect.protocol.records.batches import (
    CODEC_BITS,
    CODEC_NAMES,
    CONTROL,
    LOG_APPEND_TIME,
    PREFIX_BYTES,
    TRANSACTIONAL,
    FieldRest,
    read_header,
    rest_of_field,
    whole_batches,
)
from kdissect.protocol.records.crc32c import checksum_holds
from kdissect.protocol.records.record_decoder import CONTROL_NAMES, Record, RecordFault, read_records
from kdissect.protocol.redact import REDACTED
from kdissect.text import format_timestamp

MESSAGE = Struct(">qiIbb")
MESSAGE_FIELDS = ("offset", "message_size", "crc", "magic", "attributes")
TIMESTAMP = Struct(">q")

MOST_RECORDS = 1 << 18  # shown of one field: a small compressed batch may hold millions
LATEST_MS = 253_402_300_799_999  # the end of the year 9999

CONTROL_VALUES = {
    "abort": "EndTxnMarker",
    "commit": "EndTxnMarker",
    "leader_change": "LeaderChange",
    "snapshot_header": "SnapshotHeader",
    "snapshot_footer": "SnapshotFooter",
    "kraft_version": "KRaftVersion",
    "kraft_voters": "Voters",
}


def timestamp_text(time_ms: int) -> str | None:
    """Return a time in ms as text in UTC; None for what is not a time between 1970 and 9999."""
    if not 0 < time_ms <= LATEST_MS:
        return None
    return format_timestamp(time_ms * 10**6, digits=3)


class RecordsKind(Enum):
    """Writer of the records of a field, which decides what is shown of them."""

    PLAIN = "what producers wrote"
    METADATA = "a cluster's metadata"
    METADATA_REDACTED = "a cluster's metadata, without what may be secret"


@dataclass(frozen=True, slots=True)
class PayloadOptions:
    """How keys and values of records are decoded, and which records are shown; None for all."""

    decoder: PayloadDecoder = field(default_factory=PayloadDecoder)
    where: Test | None = None


class RecordsPlace(NamedTuple):
    """Place of records, and the way they are shown."""

    topic: str | None = None
    partition: int | None = None
    options: PayloadOptions = PayloadOptions()


def describe_records(
    data: bytes,
    with_records: bool,
    kind: RecordsKind = RecordsKind.PLAIN,
    place: RecordsPlace = RecordsPlace(),  # noqa: B008 - immutable
) -> dict[str, Any]:
    """Return size and batches of a records field, and on request the records in them.

    The keys and values of a topic at its `place` are decoded, too.
    """
    batches = dict(_batch_headers(data))
    if with_records:
        for batch in batches.values():
            if "magic" in batch:
                batch["records"] = []
        _add_records(data, batches, kind, place)
    return {"bytes": len(data), "batches": list(batches.values())}


def _batch_headers(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield position and header of every batch; the last may be only what is left of one."""
    end = 0
    for start, stop, magic in whole_batches(data):
        batch = _batch(data, start) if magic == 2 else _message(data, start, magic)
        if checksum_holds(data, start, stop) is False:
            batch["_crc"] = "wrong"
        yield start, batch
        end = stop
    rest = rest_of_field(data, end)
    if rest is not None:
        yield end, describe_rest(rest)


def describe_rest(rest: FieldRest) -> dict[str, Any]:
    """Return what stands behind the last whole batch of a field."""
    if not rest.is_cut:
        return {"fault": f"no batch at byte {rest.start}: magic {rest.magic}, length {rest.length}"}
    size = "" if rest.length is None else f" of {PREFIX_BYTES + rest.length}"
    return {"cut": f"{rest.left}{size} bytes of a batch"}


def _batch(data: bytes, start: int) -> dict[str, Any]:
    header = read_header(data, start)
    words = batch_attributes(header.attributes)
    if header.delete_horizon_ms is not None:
        words += f", delete horizon {timestamp_text(header.delete_horizon_ms) or header.delete_horizon_ms}"
    return header._asdict() | {"_attributes": words}


def batch_attributes(attributes: int) -> str:
    """Return the attributes of a batch of magic 2 in words, without the time that they may announce."""
    codec = attributes & CODEC_BITS
    words = [CODEC_NAMES.get(codec, f"codec {codec}")]
    words.append(TIMESTAMP_TYPES[bool(attributes & LOG_APPEND_TIME)])
    words += ["transactional"] if attributes & TRANSACTIONAL else []
    words += ["control"] if attributes & CONTROL else []
    return ", ".join(words)


def _message(data: bytes, position: int, magic: int) -> dict[str, Any]:
    message: dict[str, Any] = dict(zip(MESSAGE_FIELDS, MESSAGE.unpack_from(data, position), strict=True))
    attributes = message["attributes"]
    words = [CODEC_NAMES.get(attributes & CODEC_BITS, f"codec {attributes & CODEC_BITS}")]
    if magic == 1:
        message["timestamp"] = TIMESTAMP.unpack_from(data, position + MESSAGE.size)[0]
        words.append(TIMESTAMP_TYPES[bool(attributes & LOG_APPEND_TIME)])
    return message | {"_attributes": ", ".join(words)}


def _add_records(
    data: bytes, batches: dict[int, dict[str, Any]], kind: RecordsKind, place: RecordsPlace
) -> None:
    for number, item in enumerate(read_records(data)):
        if number >= MOST_RECORDS:
            list(batches.values())[-1]["fault"] = (
                f"more than {MOST_RECORDS:,} records in one field: the rest is not shown"
            )
            return
        if isinstance(item, RecordFault):
            batches.setdefault(item.position, {})["fault"] = item.reason
        else:
            fields = _record(item, kind, place)
            if fields is not None:
                batches[item.batch.position]["records"].append(fields)


def _record(record: Record, kind: RecordsKind, place: RecordsPlace) -> dict[str, Any] | None:
    """Return a record as a tree; None for one that is not wanted."""
    fields: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
    }
    if record.control is not None:
        fields |= _control(record)
    elif kind is not RecordsKind.PLAIN and record.value is not None:
        fields |= _metadata(record.value, kind)
    elif kind is RecordsKind.PLAIN:
        decoded = decode_record(record, place.topic, place.options.decoder)
        if place.options.where and not place.options.where(decoded.fields(record, place)):
            return None
        fields |= {f"_{part}": note for part, note in decoded.notes(record) if note}
    if record.headers:
        fields["headers"] = [{"key": header.key, "value": header.value} for header in record.headers]
    return fields


def _metadata(value: bytes, kind: RecordsKind) -> dict[str, Any]:
    """Return what a metadata record is, without its value if that may be secret."""
    header = metadata_header(value)
    fields: dict[str, Any] = {}
    inside: dict[str, Any] = {"bytes": len(value)}
    if header is not None:
        inside |= header._asdict() | {"_type": RECORD_TYPES.get(header.type, "unknown")}
    if kind is RecordsKind.METADATA_REDACTED and (header is None or header.secretive):
        fields["value"] = None
        inside["body"] = REDACTED.value
    return fields | {"_value": inside}


def _control(record: Record) -> dict[str, Any]:
    kind = CONTROL_NAMES.get(record.control or 0, f"type {record.control}")
    fields: dict[str, Any] = {"_key": kind}
    if kind in CONTROL_VALUES and record.value:
        decoded = decode_embedded(CONTROL_VALUES[kind], record.value)
        fields["_value"] = decoded.value | ({"_fault": str(decoded.fault)} if decoded.fault else {})
    return fields
