"""Records that a producer without idempotence tried to write before.

Such a producer may batch anew when it tries again, so batches tell nothing: each record of an attempt that failed for a
passing reason, or was never answered, is remembered by what is in it, and looked for in what the same client sends to the
partition within `PATIENCE_NS`. Two records of one millisecond with equal key, value and headers count as one tried twice.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence

from kdissect.protocol.records.record_decoder import (
    Record,
    RecordFault,
    read_records,
)
from kdissect.replay.identifiers import RecordPosition, TopicPartition
from kdissect.replay.rewrite.batch_rewrite import Batch

Who = tuple[str | None, TopicPartition]  # client id, partition
PATIENCE_NS = 300 * 10**9  # longer than producers try (delivery.timeout.ms and its like)
DIGEST_BYTES = 16
LENGTH = struct.Struct(">q")


class Attempts:
    """All that failed and was not seen again yet."""

    def __init__(self) -> None:
        self._failed: dict[Who, dict[bytes, tuple[int, ...]]] = {}  # record -> the requests that had it
        self._last_ns: dict[Who, int] = {}

    def earlier(
        self, who: Who, batches: Sequence[Batch], time_ns: int
    ) -> dict[RecordPosition, tuple[int, ...]]:
        """Give the records that were tried before, with the requests that did; they are not looked for any more."""
        if who not in self._failed:
            return {}
        if time_ns - self._last_ns[who] > PATIENCE_NS:
            del self._failed[who]
            return {}
        known, found = self._failed[who], {}
        for position, record in _records(batches):
            if record in known:
                found[position] = known.pop(record)
        if not known:
            del self._failed[who]
        return found

    def failed(
        self,
        who: Who,
        batches: Sequence[Batch],
        index: int,
        time_ns: int,
        before: dict[RecordPosition, tuple[int, ...]],
    ) -> None:
        """Take in a request that failed; `before` is what `earlier` said of it."""
        known = self._failed.setdefault(who, {})
        self._last_ns[who] = time_ns
        for position, record in _records(batches):
            known[record] = (*before.get(position, ()), index)


def _records(batches: Sequence[Batch]) -> Iterator[tuple[RecordPosition, bytes]]:
    for number, batch in enumerate(batches):
        for at, record in enumerate(read_records(batch.data)):
            if isinstance(record, RecordFault):
                break
            yield (number, at), _digest(record)


def _digest(record: Record) -> bytes:
    said = hashlib.blake2b(digest_size=DIGEST_BYTES)
    said.update(LENGTH.pack(-1 if record.timestamp_ms is None else record.timestamp_ms))
    for data in (record.key, record.value, *(part for header in record.headers for part in header)):
        said.update(LENGTH.pack(-1 if data is None else len(data)))
        said.update(data or b"")
    return said.digest()
