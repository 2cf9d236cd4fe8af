"""Read the headers inside a records field: how many records, which codec, whose producer.

The records themselves are not read.

A records field holds record batches (magic 2) or the older messages (magic 0 and 1), each with an offset and
a length in front, one after another and possibly mixed. `summarise` walks them in one compiled loop and fills
one row of numbers, the columns of `SUMMARY`. Three things are normal and no fault: an empty field, a last
batch that is cut (a broker fills a fetch to its byte limit and stops anywhere), and a field whose end the
capture has lost.

A compressed message of magic 0 or 1 wraps a whole message set, so its records can only be counted by
decompressing: the walk counts such wrappers, and `records.count_records` does the rest, slowly and within
bounds.
"""

from enum import IntEnum
from typing import Any

import numpy as np

from kdissect import limits
from kdissect.jit.decorators import jit_flat, jit_inner
from kdissect.protocol.integers import int8_at, int16_at, int32_at, int64_at
from kdissect.protocol.records.batches import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    CODEC_BITS,
    CONTROL,
    FIRST_KEY,
    HEADER_BYTES,
    LENGTH_AT,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PREFIX_BYTES,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    TRANSACTIONAL,
)

SUMMARY = (
    "records",  # in whole batches; those inside compressed messages of magic 0 and 1 are not counted
    "batches",  # whole batches, or messages of magic 0 and 1
    "codec",  # of the first batch: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; -1 if there is none
    "magic",  # of the first batch, or -1
    "base_offset",  # of the first batch, or -1
    "producer_id",  # of the first batch, or -1
    "producer_epoch",  # of the first batch, or -1
    "base_sequence",  # of the first batch, or -1
    "max_timestamp_ms",  # over all whole batches, or -1
    "wrappers",  # compressed messages of magic 0 and 1, whose records are not counted
    "control_batches",
    "transactional_batches",
    "cut",  # 1 if the last batch is incomplete
    "fault",  # RecordSetFault
    "fault_position",  # from the start of the records field, or -1
)
WIDTH = len(SUMMARY)
(
    RECORDS,
    BATCHES,
    CODEC,
    MAGIC,
    BASE_OFFSET,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
    MAX_TIMESTAMP,
    WRAPPERS,
    CONTROL_BATCHES,
    TRANSACTIONAL_BATCHES,
    CUT,
    FAULT,
    FAULT_POSITION,
) = range(WIDTH)

SMALLEST_RECORD = 7  # every part of a record of magic 2 takes a byte at least


class RecordSetFault(IntEnum):
    """Fault in the bytes of a records field."""

    NONE = 0
    MAGIC = 1
    LENGTH = 2
    CODEC = 3
    COUNT = 4
    FILL = 5
    COMPRESSION = 6
    TOO_LARGE = 7


FAULT_TEXTS = {
    RecordSetFault.MAGIC: "magic is not known",
    RecordSetFault.LENGTH: "batch length is too small",
    RecordSetFault.CODEC: "codec is not known",
    RecordSetFault.COUNT: "record count does not fit the batch",
    RecordSetFault.FILL: "message does not fill its length",
    RecordSetFault.COMPRESSION: "compressed messages cannot be read",
    RecordSetFault.TOO_LARGE: f"compressed messages become more than {limits.DECOMPRESSED_BYTES:,} bytes",
}
NO_FAULT, BAD_MAGIC, BAD_LENGTH, BAD_CODEC, BAD_COUNT, BAD_FILL = range(6)


@jit_flat
def summarise(data: Any, start: int, stop: int, field_stop: int, summary: Any) -> None:
    """Fill `summary` (int64, one element per name in SUMMARY) from the records field data[start:stop].

    `field_stop` is where the field ends by its own length: beyond `stop` if the rest of the frame is missing.
    """
    for index in range(WIDTH):
        summary[index] = -1
    for index in (RECORDS, BATCHES, WRAPPERS, CONTROL_BATCHES, TRANSACTIONAL_BATCHES, CUT, FAULT):
        summary[index] = 0
    offset = start
    while offset + FIRST_KEY <= stop:
        magic = int8_at(data, offset + MAGIC_AT)
        if magic == 2 and offset + HEADER_BYTES > stop:
            break
        if magic < 0 or magic > 2:
            summary[FAULT] = BAD_MAGIC
        elif magic == 2:
            summary[FAULT] = _read_batch(data, offset, field_stop, summary)
        elif offset + FIRST_KEY + 8 * magic > stop:
            break
        else:
            summary[FAULT] = _read_message(data, offset, stop, field_stop, magic, summary)
        if summary[FAULT] != NO_FAULT:
            summary[FAULT_POSITION] = offset - start
            return
        offset += PREFIX_BYTES + int32_at(data, offset + LENGTH_AT)
        if offset > field_stop:
            break
    if offset != field_stop:
        summary[CUT] = 1


@jit_inner
def _read_batch(data: Any, offset: int, field_stop: int, summary: Any) -> int:
    """Add the batch of magic 2 whose whole header is at `at`."""
    length = int32_at(data, offset + LENGTH_AT)
    attributes = int16_at(data, offset + ATTRIBUTES_AT)
    records = int32_at(data, offset + RECORD_COUNT_AT)
    codec = attributes & CODEC_BITS
    if length < HEADER_BYTES - PREFIX_BYTES:
        return BAD_LENGTH
    if codec > 4:
        return BAD_CODEC
    if records < 0 or (codec == 0 and records * SMALLEST_RECORD > length - (HEADER_BYTES - PREFIX_BYTES)):
        return BAD_COUNT
    if summary[MAGIC] < 0:
        summary[MAGIC] = 2
        summary[CODEC] = codec
        summary[BASE_OFFSET] = int64_at(data, offset)
        summary[PRODUCER_ID] = int64_at(data, offset + PRODUCER_ID_AT)
        summary[PRODUCER_EPOCH] = int16_at(data, offset + PRODUCER_EPOCH_AT)
        summary[BASE_SEQUENCE] = int32_at(data, offset + BASE_SEQUENCE_AT)
    if offset + PREFIX_BYTES + length <= field_stop:
        summary[BATCHES] += 1
        summary[RECORDS] += records
        summary[CONTROL_BATCHES] += (attributes & CONTROL) // CONTROL
        summary[TRANSACTIONAL_BATCHES] += (attributes & TRANSACTIONAL) // TRANSACTIONAL
        summary[MAX_TIMESTAMP] = max(summary[MAX_TIMESTAMP], int64_at(data, offset + MAX_TIMESTAMP_AT))
    return NO_FAULT


@jit_inner
def _read_message(data: Any, offset: int, stop: int, field_stop: int, magic: int, summary: Any) -> int:
    """Add the message of magic 0 or 1 whose offset, size, checksum, attributes and timestamp are at `at`."""
    size = int32_at(data, offset + LENGTH_AT)
    codec = int8_at(data, offset + 17) & CODEC_BITS
    key = offset + FIRST_KEY + 8 * magic
    end = offset + PREFIX_BYTES + size
    if size < FIRST_KEY - PREFIX_BYTES + 8 * magic + 8:
        return BAD_LENGTH
    if codec > 3:
        return BAD_CODEC
    if end <= stop and not _fills(data, key, end):
        return BAD_FILL
    if summary[MAGIC] < 0:
        summary[MAGIC] = magic
        summary[CODEC] = codec
        summary[BASE_OFFSET] = int64_at(data, offset)
    if end <= field_stop:
        summary[BATCHES] += 1
        if codec == 0:
            summary[RECORDS] += 1
        else:
            summary[WRAPPERS] += 1
        if magic == 1:
            summary[MAX_TIMESTAMP] = max(summary[MAX_TIMESTAMP], int64_at(data, offset + 18))
    return NO_FAULT


@jit_inner
def _fills(data: Any, key: int, end: int) -> bool:
    """Return whether a key and a value, each with its length in front, fill data[key:end] exactly."""
    key_size = int32_at(data, key)
    if key_size < -1 or key + 4 + max(key_size, 0) + 4 > end:
        return False
    value = key + 4 + max(key_size, 0)
    value_size = int32_at(data, value)
    return bool(value_size >= -1 and value + 4 + max(value_size, 0) == end)


def summary_of(data: bytes) -> dict[str, int]:
    """Return the summary of one records field by the names of SUMMARY.

    >>> summary_of(b"")["batches"]
    0
    """
    summary = np.zeros(WIDTH, np.int64)
    summarise(np.frombuffer(data, np.uint8), 0, len(data), len(data), summary)
    return dict(zip(SUMMARY, summary.tolist(), strict=True))
