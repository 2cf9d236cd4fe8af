"""Positions of batches in a records field, and facts in the header of a batch.

A records field holds record batches (magic 2, KIP-98) or messages (magic 0 and 1), one after another and
possibly mixed. All begin with an offset and a length, and have their magic at the same place, so one loop
finds the borders of all: `whole_batches`. The last batch may be cut, since a broker fills a fetch to its byte
limit and stops anywhere; `rest_of_field` says what stands behind the last whole batch. Bytes may be hostile:
nothing here raises for them.

`batch_summary.summarise` is the compiled sibling, for the loop that reads whole captures. A test holds both
equal.
"""

from collections.abc import Iterator
from struct import Struct, calcsize
from typing import NamedTuple

CODEC_NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
CODEC_BITS, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20  # in the attributes
DELETE_HORIZON = 0x40  # in the attributes (KIP-534)


class BatchHeader(NamedTuple):
    """The header of a record batch of magic 2, with the names of the protocol guide. Times are in ms."""

    base_offset: int
    batch_length: int  # of what follows it
    partition_leader_epoch: int
    magic: int
    crc: int  # CRC-32C of what follows it
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> int:
        """The number of the codec; see CODEC_NAMES."""
        return self.attributes & CODEC_BITS

    @property
    def log_append_time(self) -> bool:
        """Return whether the broker set the time of all records (KIP-32)."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        """Return whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Return whether brokers wrote the batch, as the end of a transaction for instance."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Return the time from which compaction may drop tombstones and marks of this batch (KIP-534).

        It stands as base timestamp.

        None if the broker has not set it yet.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


_CODES = "qiibIhiqqqhii"  # of struct, one for each field of BatchHeader
HEADER = Struct(f">{_CODES}")
HEADER_BYTES = HEADER.size
_AT = {name: calcsize(f">{_CODES[:index]}") for index, name in enumerate(BatchHeader._fields)}
LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT = (
    _AT[name] for name in ("batch_length", "magic", "crc", "attributes")
)
LAST_OFFSET_DELTA_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT = (
    _AT[name] for name in ("last_offset_delta", "base_timestamp", "max_timestamp")
)
PRODUCER_ID_AT, PRODUCER_EPOCH_AT, BASE_SEQUENCE_AT = (
    _AT[name] for name in ("producer_id", "producer_epoch", "base_sequence")
)
RECORD_COUNT_AT = _AT["record_count"]

PREFIX_BYTES = LENGTH_AT + 4  # offset and length, which the length does not count
FIRST_KEY = 18  # where the key of a message of magic 0 begins; magic 1 has a timestamp before it
SMALLEST = (FIRST_KEY - PREFIX_BYTES + 8, FIRST_KEY - PREFIX_BYTES + 16, HEADER_BYTES - PREFIX_BYTES)
"""The smallest length that a batch may claim, by its magic."""

_LENGTH_AND_MAGIC = Struct(">i4xB")
_OFFSET, _INT32 = Struct(">q"), Struct(">i")

Bytes = bytes | bytearray | memoryview


class BatchFrame(NamedTuple):
    """Position of one whole batch or message: data[start:stop]."""

    start: int
    stop: int
    magic: int


class FieldRest(NamedTuple):
    """Bytes behind the last whole batch of a field: a cut batch, or bytes that are no batch."""

    start: int
    left: int  # bytes
    magic: int | None = None  # None: too few bytes to tell
    length: int | None = None

    @property
    def is_cut(self) -> bool:
        """Return whether this is the beginning of a batch.

        Brokers cut the last batch of a fetch, so it is no fault.
        """
        return self.magic is None or self.reason is None

    @property
    def reason(self) -> str | None:
        """Return the reason why this is no batch; None if it is a cut one."""
        if self.magic is None or self.length is None:
            return None
        if self.magic >= len(SMALLEST):
            return f"magic {self.magic} is not known"
        return f"length {self.length} is too small" if self.length < SMALLEST[self.magic] else None


def read_header(data: Bytes, start: int = 0) -> BatchHeader:
    """Return the header of the batch of magic 2 at data[start:], which has at least HEADER_BYTES bytes."""
    return BatchHeader._make(HEADER.unpack_from(data, start))


def whole_batches(data: Bytes, start: int = 0, stop: int | None = None) -> Iterator[BatchFrame]:
    """Yield the batches and messages of the records field data[start:stop], up to a cut or invalid one."""
    stop = len(data) if stop is None else stop
    while stop - start >= FIRST_KEY:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(data, start + LENGTH_AT)
        end = start + PREFIX_BYTES + length
        if magic >= len(SMALLEST) or length < SMALLEST[magic] or end > stop:
            return
        yield BatchFrame(start, end, magic)
        start = end


def is_only_batch(data: Bytes, start: int, stop: int) -> bool:
    """Return whether data[start:stop] is one whole batch of magic 2, and nothing else."""
    if stop - start < HEADER_BYTES:
        return False
    length, magic = _LENGTH_AND_MAGIC.unpack_from(data, start + LENGTH_AT)
    return bool(magic == 2 and start + PREFIX_BYTES + length == stop)


def rest_of_field(data: Bytes, start: int) -> FieldRest | None:
    """Return what data[start:] is, where `start` is behind the last whole batch; None if nothing is left."""
    left = len(data) - start
    if left < FIRST_KEY:
        return FieldRest(start, left) if left else None
    length, magic = _LENGTH_AND_MAGIC.unpack_from(data, start + LENGTH_AT)
    return FieldRest(start, left, magic, length)


def first_offset(data: Bytes) -> int | None:
    """Return the offset with which a records field begins, even if its first batch is cut.

    None if it is empty.
    """
    return int(_OFFSET.unpack_from(data)[0]) if len(data) >= _OFFSET.size else None


def following_offset(data: Bytes, start: int = 0, stop: int | None = None) -> int | None:
    """Return the offset behind the last whole batch of data[start:stop]; None if no batch is whole."""
    return whole_end(data, start, stop)[0]


def whole_end(data: Bytes, start: int = 0, stop: int | None = None) -> tuple[int | None, int]:
    """Return the offset behind the last whole batch of data[start:stop], and the bytes of all whole batches.

    None and 0 if no batch is whole.
    """
    last: BatchFrame | None = None
    for frame in whole_batches(data, start, stop):
        last = frame
    if last is None:
        return None, 0
    delta = _INT32.unpack_from(data, last.start + LAST_OFFSET_DELTA_AT)[0] if last.magic == 2 else 0
    return int(_OFFSET.unpack_from(data, last.start)[0] + delta) + 1, last.stop - start


def claimed_records(data: Bytes, first: int | None = None) -> int:
    """Return how many records the headers of whole batches claim; a message of magic 0 or 1 counts as one.

    Only batches from the offset `first` on count, if it is given.
    """
    return sum(
        _INT32.unpack_from(data, frame.start + RECORD_COUNT_AT)[0] if frame.magic == 2 else 1
        for frame in whole_batches(data)
        if first is None or _OFFSET.unpack_from(data, frame.start)[0] >= first
    )
