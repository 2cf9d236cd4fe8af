"""A records field in words: its batches, and on request the records in them.

Without records nothing of what producers wrote is shown: only what the header of each batch (or message of magic 0 and 1)
says. With them every batch has `records` with offset, timestamp, key, value and headers; keys and values of control
records are decoded. What is wrong with a batch is its `fault`; a last batch that is cut is said to be, and is no fault.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from struct import Struct
from typing import Any

import numpy as np

from kdissect.protocol.codec.messages import decode_embedded
from kdissect.protocol.enums import COMPRESSION, TIMESTAMP_TYPES
from kdissect.protocol.metadata_records import RECORD_TYPES, metadata_header
from kdissect.protocol.records.crc32c import checksum_holds
from kdissect.protocol.records.record_codec import (
    CONTROL_NAMES,
    SMALLEST,
    Record,
    RecordFault,
    read_records,
)
from kdissect.protocol.records.summary import (
    BATCH_HEADER,
    CODEC_BITS,
    CONTROL,
    FIRST_KEY,
    LOG_APPEND_TIME,
    PREFIX,
    TRANSACTIONAL,
)
from kdissect.protocol.redact import REDACTED

BATCH = Struct(">qiibIhiqqqhii")
BATCH_FIELDS = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
MESSAGE = Struct(">qiIbb")
MESSAGE_FIELDS = ("offset", "message_size", "crc", "magic", "attributes")
TIMESTAMP = Struct(">q")

MOST_RECORDS = 1 << 18  # shown of one field: a small compressed batch may hold millions
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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


def moment(time_ms: int) -> str | None:
    """Write a time in ms in UTC; None for what is no time."""
    if not 0 < time_ms <= LATEST_MS:
        return None
    return f"{EPOCH + timedelta(milliseconds=time_ms):%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


class Kind(Enum):
    """What the records of a field are."""

    PLAIN = "what producers wrote"
    METADATA = "a cluster's metadata"
    METADATA_REDACTED = "a cluster's metadata, without what may be secret"


def describe(data: bytes, with_records: bool, kind: Kind = Kind.PLAIN) -> dict[str, Any]:
    """Say what a records field holds."""
    batches = dict(_headers(data))
    if with_records:
        for batch in batches.values():
            if "magic" in batch:
                batch["records"] = []
        _add_records(data, batches, kind)
    return {"bytes": len(data), "batches": list(batches.values())}


def _headers(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give position and header of every batch; the last may be only what is left of one."""
    at, whole = 0, np.frombuffer(data, np.uint8)
    while at < len(data):
        left = len(data) - at
        if left < FIRST_KEY:
            yield at, {"cut": f"{left} bytes of a batch"}
            return
        magic = data[at + PREFIX + 4]
        size = PREFIX + int.from_bytes(data[at + 8 : at + PREFIX], "big", signed=True)
        if magic not in SMALLEST or size - PREFIX < SMALLEST[magic]:
            yield at, {"fault": f"no batch at byte {at}: magic {magic}, length {size - PREFIX}"}
            return
        if size > left:
            yield at, {"cut": f"{left} of {size} bytes of a batch"}
            return
        batch = _batch(data, at) if magic == 2 else _message(data, at, magic)
        if checksum_holds(whole, at, at + size) is False:
            batch["_crc"] = "wrong"
        yield at, batch
        at += size


def _batch(data: bytes, at: int) -> dict[str, Any]:
    batch: dict[str, Any] = dict(zip(BATCH_FIELDS, BATCH.unpack_from(data, at), strict=True))
    attributes = batch["attributes"]
    words = [COMPRESSION.get(attributes & CODEC_BITS, f"codec {attributes & CODEC_BITS}")]
    words.append(TIMESTAMP_TYPES[bool(attributes & LOG_APPEND_TIME)])
    words += ["transactional"] if attributes & TRANSACTIONAL else []
    words += ["control"] if attributes & CONTROL else []
    return batch | {"_attributes": ", ".join(words)}


def _message(data: bytes, at: int, magic: int) -> dict[str, Any]:
    message: dict[str, Any] = dict(zip(MESSAGE_FIELDS, MESSAGE.unpack_from(data, at), strict=True))
    attributes = message["attributes"]
    words = [COMPRESSION.get(attributes & CODEC_BITS, f"codec {attributes & CODEC_BITS}")]
    if magic == 1:
        message["timestamp"] = TIMESTAMP.unpack_from(data, at + MESSAGE.size)[0]
        words.append(TIMESTAMP_TYPES[bool(attributes & LOG_APPEND_TIME)])
    return message | {"_attributes": ", ".join(words)}


def _add_records(data: bytes, batches: dict[int, dict[str, Any]], kind: Kind) -> None:
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


def _record(record: Record, kind: Kind) -> dict[str, Any]:
    said: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
    }
    if record.control is not None:
        said |= _control(record)
    elif kind is not Kind.PLAIN and record.value is not None:
        said |= _metadata(record.value, kind)
    if record.headers:
        said["headers"] = [{"key": header.key, "value": header.value} for header in record.headers]
    return said


def _metadata(value: bytes, kind: Kind) -> dict[str, Any]:
    """Say what a metadata record is, and no more than that of one that may hold a secret."""
    header = metadata_header(value)
    said: dict[str, Any] = {}
    inside: dict[str, Any] = {"bytes": len(value)}
    if header is not None:
        inside |= header._asdict() | {"_type": RECORD_TYPES.get(header.type, "unknown")}
    if kind is Kind.METADATA_REDACTED and (header is None or header.secretive):
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


assert BATCH.size == BATCH_HEADER
