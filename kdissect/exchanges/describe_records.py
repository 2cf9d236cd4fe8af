"""A records field in words: its batches, and on request the records in them.

Without records nothing of what producers wrote is shown: only what the header of each batch (or message of magic 0 and 1)
says. With them every batch has `records` with offset, timestamp, key, value and headers; keys and values of control
records are decoded. What is wrong with a batch is its `fault`; a last batch that is cut is said to be, and is no fault.
"""

from collections.abc import Iterator
from enum import Enum
from struct import Struct
from typing import Any

import numpy as np

from kdissect.protocol.codec.messages import decode_embedded
from kdissect.protocol.enums import TIMESTAMP_TYPES
from kdissect.protocol.metadata_records import RECORD_TYPES, metadata_header
from kdissect.protocol.records.batches import (
    CODEC_BITS,
    CODEC_NAMES,
    LOG_APPEND_TIME,
    PREFIX_BYTES,
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
    """Return a time in ms as text in UTC, None for a number that is not a time after 1970 and before 10000."""
    if not 0 < time_ms <= LATEST_MS:
        return None
    return format_timestamp(time_ms * 10**6, digits=3)


class RecordsKind(Enum):
    """What the records of a field are."""

    PLAIN = "what producers wrote"
    METADATA = "a cluster's metadata"
    METADATA_REDACTED = "a cluster's metadata, without what may be secret"


def describe_records(
    data: bytes, with_records: bool, kind: RecordsKind = RecordsKind.PLAIN
) -> dict[str, Any]:
    """Say what a records field holds."""
    batches = dict(_headers(data))
    if with_records:
        for batch in batches.values():
            if "magic" in batch:
                batch["records"] = []
        _add_records(data, batches, kind)
    return {"bytes": len(data), "batches": list(batches.values())}


def _headers(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield position and header of every batch; the last may be only what is left of one."""
    end, array = 0, np.frombuffer(data, np.uint8)
    for start, stop, magic in whole_batches(data):
        batch = _batch(data, start) if magic == 2 else _message(data, start, magic)
        if checksum_holds(array, start, stop) is False:
            batch["_crc"] = "wrong"
        yield start, batch
        end = stop
    rest = rest_of_field(data, end)
    if rest is not None:
        yield end, _rest(rest)


def _rest(rest: FieldRest) -> dict[str, Any]:
    if not rest.is_cut:
        return {"fault": f"no batch at byte {rest.start}: magic {rest.magic}, length {rest.length}"}
    size = "" if rest.length is None else f" of {PREFIX_BYTES + rest.length}"
    return {"cut": f"{rest.left}{size} bytes of a batch"}


def _batch(data: bytes, start: int) -> dict[str, Any]:
    header = read_header(data, start)
    words = [CODEC_NAMES.get(header.codec, f"codec {header.codec}")]
    words.append(TIMESTAMP_TYPES[header.log_append_time])
    words += ["transactional"] if header.transactional else []
    words += ["control"] if header.control else []
    return header._asdict() | {"_attributes": ", ".join(words)}


def _message(data: bytes, at: int, magic: int) -> dict[str, Any]:
    message: dict[str, Any] = dict(zip(MESSAGE_FIELDS, MESSAGE.unpack_from(data, at), strict=True))
    attributes = message["attributes"]
    words = [CODEC_NAMES.get(attributes & CODEC_BITS, f"codec {attributes & CODEC_BITS}")]
    if magic == 1:
        message["timestamp"] = TIMESTAMP.unpack_from(data, at + MESSAGE.size)[0]
        words.append(TIMESTAMP_TYPES[bool(attributes & LOG_APPEND_TIME)])
    return message | {"_attributes": ", ".join(words)}


def _add_records(data: bytes, batches: dict[int, dict[str, Any]], kind: RecordsKind) -> None:
    for number, found in enumerate(read_records(data)):
        if number >= MOST_RECORDS:
            list(batches.values())[-1]["fault"] = (
                f"more than {MOST_RECORDS:,} records in one field: the rest is not shown"
            )
            return
        if isinstance(found, RecordFault):
            batches.setdefault(found.position, {})["fault"] = found.reason
        else:
            batches[found.batch.position]["records"].append(_record(found, kind))


def _record(record: Record, kind: RecordsKind) -> dict[str, Any]:
    said: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
    }
    if record.control is not None:
        said |= _control(record)
    elif kind is not RecordsKind.PLAIN and record.value is not None:
        said |= _metadata(record.value, kind)
    if record.headers:
        said["headers"] = [{"key": header.key, "value": header.value} for header in record.headers]
    return said


def _metadata(value: bytes, kind: RecordsKind) -> dict[str, Any]:
    """Say what a metadata record is, and no more than that of one that may hold a secret."""
    header = metadata_header(value)
    said: dict[str, Any] = {}
    inside: dict[str, Any] = {"bytes": len(value)}
    if header is not None:
        inside |= header._asdict() | {"_type": RECORD_TYPES.get(header.type, "unknown")}
    if kind is RecordsKind.METADATA_REDACTED and (header is None or header.secretive):
        said["value"] = None
        inside["body"] = REDACTED.value
    return said | {"_value": inside}


def _control(record: Record) -> dict[str, Any]:
    kind = CONTROL_NAMES.get(record.control or 0, f"type {record.control}")
    said: dict[str, Any] = {"_key": kind}
    if kind in CONTROL_VALUES and record.value:
        decoded = decode_embedded(CONTROL_VALUES[kind], record.value)
        said["_value"] = decoded.value | ({"_fault": str(decoded.fault)} if decoded.fault else {})
    return said
