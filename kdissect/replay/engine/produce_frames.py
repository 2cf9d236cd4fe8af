"""Subject of a Produce request, read from its frame without decoding it: partitions, and records in each.

In: a frame with its length, and its version. Out: topics with their partitions as they stand in it, how many
records each partition has by the header of its first batch, and where the last field of records stands. The
records are passed over.

Most requests write to one partition, and their records stand last. `records_span` finds them by where their
length stands, which is the same in all requests like an earlier one.
"""

from functools import lru_cache
from typing import NamedTuple

from kdissect.protocol.codec.wire import write_uvarint
from kdissect.replay.engine.fast_path.expected_answer import ProducedPartitions

HEADER = 12  # bytes before the client id, with the length
FLEXIBLE, WITH_TRANSACTION, WITH_IDS = 9, 3, 13  # versions
RECORDS_AT = 57  # where a batch says how many records it has
NO_TAGS = b"\0\0\0"  # behind the records: of the partition, the topic and the request
LONGEST = ((1, 1 << 7), (2, 1 << 14), (3, 1 << 21), (4, 1 << 28))  # bytes of a length: numbers below


class Produced(NamedTuple):
    """Partitions by topic, and the records of all partitions in this order."""

    partitions: ProducedPartitions
    records: tuple[int, ...]
    at: int  # where the length of the records of the last partition stands


def produced_in(frame: bytes, version: int) -> Produced:
    """Return what a Produce request writes."""
    reader = _Reader(frame, HEADER, version >= FLEXIBLE)
    reader.at += 2 + max(int.from_bytes(frame[HEADER : HEADER + 2], "big", signed=True), 0)
    reader.tags()
    if version >= WITH_TRANSACTION:
        reader.text()
    reader.at += 2 + 4  # acks, timeout
    topics, records, at = [], [], 0
    for _ in range(reader.size(4)):
        topic = reader.raw(16) if version >= WITH_IDS else reader.text().decode("utf-8", "replace")
        indices = []
        for _ in range(reader.size(4)):
            indices.append(int.from_bytes(reader.raw(4), "big"))
            at = reader.at
            size = reader.size(4)
            records.append(records_in(frame, reader.at, reader.at + size))
            reader.at += size
            reader.tags()
        topics.append((topic, tuple(indices)))
        reader.tags()
    return Produced(tuple(topics), tuple(records), at)


def records_in(frame: bytes, begin: int, stop: int) -> int:
    """Return how many records the batch at frame[begin:stop] has by its header."""
    start = begin + RECORDS_AT
    return int.from_bytes(frame[start : start + 4], "big") if start < stop else 0


def records_span(frame: bytes, at: int, compact: bool) -> tuple[int, int] | None:
    """Return where the records of a frame lie whose length stands at `at`; None if they are not all its rest.

    Behind them nothing may stand but empty tagged fields. A length that takes more bytes than it needs is not
    looked for.
    """
    end = len(frame)
    length = _length_before(end - at, compact)
    if length is None or not frame.startswith(length, at):
        return None
    if not compact:
        return at + len(length), end
    return (at + len(length), end - len(NO_TAGS)) if frame.endswith(NO_TAGS) else None


@lru_cache(1 << 12)
def _length_before(left: int, compact: bool) -> bytes | None:
    """Return the length with which the last `left` bytes of a frame begin; None if they are too few."""
    if not compact:
        return length_of(left - 4, False) if left >= 4 else None
    rest = left - len(NO_TAGS)
    size = next((size for size, below in LONGEST if rest - size + 1 < below), 0)
    length = length_of(max(rest - size, 0), True)
    return length if len(length) == size else None  # no length fits, where numbers begin to take a byte more


@lru_cache(1 << 12)
def length_of(size: int, compact: bool) -> bytes:
    """Return how the length of records is written."""
    if not compact:
        return size.to_bytes(4, "big")
    out = bytearray()
    write_uvarint(out, size + 1)
    return bytes(out)


class _Reader:
    """A place in a frame that was encoded by this program."""

    __slots__ = ("_compact", "_frame", "at")

    def __init__(self, frame: bytes, at: int, compact: bool) -> None:
        self._frame, self._compact, self.at = frame, compact, at

    def raw(self, size: int) -> bytes:
        """Return bytes."""
        self.at += size
        return self._frame[self.at - size : self.at]

    def size(self, plain_bytes: int) -> int:
        """Return the length of what follows, 0 for null; in old versions a number of so many bytes."""
        if not self._compact:
            return max(int.from_bytes(self.raw(plain_bytes), "big", signed=True), 0)
        return max(self._varint() - 1, 0)

    def text(self) -> bytes:
        """Return a string, empty for null."""
        return self.raw(self.size(2))

    def tags(self) -> None:
        """Pass over tagged fields."""
        if self._compact:
            for _ in range(self._varint()):
                self._varint()
                self.at += self._varint()

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._frame[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
