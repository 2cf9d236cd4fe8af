"""Subject of a Produce request, read from its frame without decoding it: partitions, and records in each.

In: a frame with its length, and its version. Out: topics with their partitions as they stand in it, how many
records each partition has by the header of its first batch, and the acks. The records are passed over.
"""

from typing import NamedTuple

from kdissect.replay.engine.fast_path.expected_answer import ProducedPartitions

HEADER = 12  # bytes before the client id, with the length
FLEXIBLE, WITH_TRANSACTION, WITH_IDS = 9, 3, 13  # versions
RECORDS_AT = 57  # where a batch says how many records it has


class Produced(NamedTuple):
    """Partitions by topic, and the records of all partitions in this order."""

    partitions: ProducedPartitions
    records: tuple[int, ...]


def produced_in(frame: bytes, version: int) -> Produced:
    """Return what a Produce request writes."""
    reader = _Reader(frame, HEADER, version >= FLEXIBLE)
    reader.at += 2 + max(int.from_bytes(frame[HEADER : HEADER + 2], "big", signed=True), 0)
    reader.tags()
    if version >= WITH_TRANSACTION:
        reader.text()
    reader.at += 2 + 4  # acks, timeout
    topics, records = [], []
    for _ in range(reader.size(4)):
        topic = reader.raw(16) if version >= WITH_IDS else reader.text().decode("utf-8", "replace")
        indices = []
        for _ in range(reader.size(4)):
            indices.append(int.from_bytes(reader.raw(4), "big"))
            size = reader.size(4)
            start = reader.at + RECORDS_AT
            records.append(int.from_bytes(frame[start : start + 4], "big") if size > RECORDS_AT else 0)
            reader.at += size
            reader.tags()
        topics.append((topic, tuple(indices)))
        reader.tags()
    return Produced(tuple(topics), tuple(records))


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
