"""Which batches are retries, and which must be written before others.

A producer with an id sends the same batch again: same producer, epoch and sequence. A producer without
idempotence may batch anew when it tries again, so batches tell nothing: each record of an attempt that failed
for a passing reason, or got no response, is remembered by its content, and looked for in what the same client
sends to the partition within `PATIENCE_NS`. Two records of one millisecond with equal key, value and headers
count as one that was tried twice.

A producer changes its connection when a leader moves, or when it connects again. Its batches of a partition
stay in order even so.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence

from kdissect.protocol.error_codes import is_retriable
from kdissect.protocol.records.record_decoder import Record, RecordFault, read_records
from kdissect.replay.disposition import SkipRequest
from kdissect.replay.identifiers import ProducerKey, RecordPosition, TopicPartition
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.batch_rewrite import CapturedBatch, batches_of
from kdissect.replay.rewrite.names import Names, Tree

Writer = tuple[str | None, TopicPartition]  # client id, partition
PATIENCE_NS = 300 * 10**9  # longer than producers try (delivery.timeout.ms and its like)
DIGEST_BYTES = 16
LENGTH = struct.Struct(">q")


class RetryFinder:
    """Learns from all Produce requests in order, and notes what each of them repeats or waits for."""

    def __init__(self, loaded: ReplayInput) -> None:
        self._loaded = loaded
        self._sequences: dict[tuple[ProducerKey, TopicPartition, int], tuple[int, ...]] = {}
        self._failed = FailedRecords()
        self._writers: dict[tuple[object, TopicPartition], tuple[int, int, str]] = {}
        self._last: dict[int, int] = {}  # connection -> its last Produce request
        self._reconnections: list[tuple[int, int, int]] = []  # if the connection at the end is over by then

    def finish(self) -> None:
        """Find which producers without an id had connected again: their connection before was over."""
        for index, earlier, connection in self._reconnections:
            if self._last[connection] < index:
                self._loaded.after.setdefault(index, set()).add(earlier)
        self._reconnections.clear()

    @property
    def has_failed_records(self) -> bool:
        """Return whether records without a producer id failed, and may come again."""
        return self._failed.any

    def note_last(self, connection: int, index: int) -> None:
        """Note the last Produce request of a connection."""
        self._last[connection] = max(self._last.get(connection, index), index)

    def take(self, item: ReplayItem, body: Tree, response: Tree | None) -> None:
        """Learn from a Produce request."""
        loaded = self._loaded
        begins = item.request.connection not in self._last
        self._last[item.request.connection] = item.request.index
        errors = _errors(response, loaded.names)
        for topic in body["topic_data"]:
            name = loaded.names.captured_topic(topic) or ""
            for fields in topic["partition_data"]:
                partition = (name, fields["index"])
                loaded.source.add_partition(partition)
                try:
                    batches = batches_of(fields["records"] or b"")
                except SkipRequest:
                    continue  # reported when the request's turn comes
                loaded.records += sum(batch.records for batch in batches)
                loaded.record_bytes += len(fields["records"] or b"")
                if batches:
                    self._keep_order(item, partition, batches[0], begins)
                    self._find(item, partition, batches, errors.get(partition))

    def _find(
        self,
        item: ReplayItem,
        partition: TopicPartition,
        batches: Sequence[CapturedBatch],
        error: int | None,
    ) -> None:
        request, loaded, first = item.request, self._loaded, batches[0]
        if first.producer_id >= 0:
            key = ((first.producer_id, first.producer_epoch), partition, first.base_sequence)
            before = self._sequences.get(key, ())
            self._sequences[key] = (*before, request.index)
            if before:
                loaded.retries.setdefault(request.index, {})[partition] = before
            return
        writer = (item.client_id, partition)
        repeated = self._failed.earlier(writer, batches, request.first_ns)
        if repeated:
            loaded.repeats.setdefault(request.index, {})[partition] = repeated
        unanswered = error is None and request.status == "unanswered"
        if unanswered or (error and is_retriable(error)):
            self._failed.add(writer, batches, request.index, request.first_ns, repeated)

    def _keep_order(
        self, item: ReplayItem, partition: TopicPartition, first: CapturedBatch, begins: bool
    ) -> None:
        """Find the request that must end before, if the producer has changed its connection.

        Without a producer id two things tell that from a second producer of the same name: another broker, or
        a new connection (it `begins`) after the last request on the old one.
        """
        if item.refusal is not None:
            return
        request = item.request
        host = self._loaded.capture.client_host(request.connection)
        producer: object = first.producer_id if first.producer_id >= 0 else (host, item.client_id)
        known = self._writers.get((producer, partition))
        self._writers[producer, partition] = (request.index, request.connection, request.server)
        if known is None or known[1] == request.connection:
            return
        if first.producer_id >= 0 or known[2] != request.server:
            self._loaded.after.setdefault(request.index, set()).add(known[0])
        elif begins:
            self._reconnections.append((request.index, known[0], known[1]))


class FailedRecords:
    """The records of producers without idempotence that failed, and were not seen again yet."""

    def __init__(self) -> None:
        self._failed: dict[Writer, dict[bytes, tuple[int, ...]]] = {}  # record -> the requests that had it
        self._last_ns: dict[Writer, int] = {}

    @property
    def any(self) -> bool:
        """Return whether there are such records."""
        return bool(self._failed)

    def earlier(
        self, writer: Writer, batches: Iterable[CapturedBatch], time_ns: int
    ) -> dict[RecordPosition, tuple[int, ...]]:
        """Return records that were tried before, with the requests that had them, and forget them."""
        if writer not in self._failed:
            return {}
        if time_ns - self._last_ns[writer] > PATIENCE_NS:
            del self._failed[writer]
            return {}
        known, found = self._failed[writer], {}
        for position, record in _records(batches):
            if record in known:
                found[position] = known.pop(record)
        if not known:
            del self._failed[writer]
        return found

    def add(
        self,
        writer: Writer,
        batches: Iterable[CapturedBatch],
        index: int,
        time_ns: int,
        before: dict[RecordPosition, tuple[int, ...]],
    ) -> None:
        """Learn from a request that failed; `before` is what `earlier` returned for it."""
        known = self._failed.setdefault(writer, {})
        self._last_ns[writer] = time_ns
        for position, record in _records(batches):
            known[record] = (*before.get(position, ()), index)


def _errors(response: Tree | None, names: Names) -> dict[TopicPartition, int]:
    return {
        (names.captured_topic(topic) or "", each["index"]): each["error_code"]
        for topic in (response or {}).get("responses") or ()
        for each in topic["partition_responses"]
    }


def _records(batches: Iterable[CapturedBatch]) -> Iterator[tuple[RecordPosition, bytes]]:
    for number, batch in enumerate(batches):
        for at, record in enumerate(read_records(batch.data)):
            if isinstance(record, RecordFault):
                break
            yield (number, at), _digest(record)


def _digest(record: Record) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    digest.update(b"%d " % (-1 if record.timestamp_ms is None else record.timestamp_ms))  # of any size
    for data in (record.key, record.value, *(part for header in record.headers for part in header)):
        digest.update(LENGTH.pack(-1 if data is None else len(data)))
        digest.update(data or b"")
    return digest.digest()
