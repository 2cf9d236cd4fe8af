"""What reads and commits of the capture depend on: the produces, transactions and fetches that came before.

In: every request with its response, in the order of the capture. Out, by request:

- `reads`: what the captured answer of a fetch had, partition by partition;
- `writers_before`: the Produce requests that wrote a partition up to an offset;
- `before`: for a fetch whose answer had the end of a transaction the request that ended it, for a commit the
  last fetch of its client that brought something of a partition that it commits.

These are facts of the capture (*happens-before*): no client reads what is not written. A request that is not
sent is no condition.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.protocol.records.batches import (
    ATTRIBUTES_AT,
    CONTROL,
    PRODUCER_ID_AT,
    following_offset,
    whole_batches,
)
from kdissect.replay.identifiers import ClientKey, TopicPartition
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Names, Tree

LAST_OF_ATTRIBUTES = ATTRIBUTES_AT + 1  # the byte with all bits that brokers use
NO_PRODUCES = array("q")


class PartitionRead(NamedTuple):
    """What a captured answer had of one partition."""

    following: int  # the offset behind its last whole batch
    size: int  # bytes of its records


Reads = Mapping[TopicPartition, PartitionRead]
NOTHING_READ: Reads = {}


class _Writers:
    """The Produce requests that wrote a partition, by the captured offset of their batches."""

    def __init__(self) -> None:
        self.offsets, self.requests = array("q"), array("q")
        self._sorted = True

    def add(self, offset: int, request: int) -> None:
        self._sorted = self._sorted and (not self.offsets or offset >= self.offsets[-1])
        self.offsets.append(offset)
        self.requests.append(request)

    def sort(self) -> None:
        if not self._sorted:
            pairs = sorted(zip(self.offsets, self.requests, strict=True))
            self.offsets, self.requests = (
                array("q", (each[0] for each in pairs)),
                array("q", (each[1] for each in pairs)),
            )
            self._sorted = True


class CapturedReads:
    """Learns from all requests in order; complete after `finish`."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[int, ...]] = {}
        self._reads: dict[int, Reads] = {}
        self._writers: dict[TopicPartition, _Writers] = defaultdict(_Writers)
        self._readers: dict[tuple[ClientKey, TopicPartition], tuple[array[int], array[int]]] = {}
        self._transaction_ends: dict[int, tuple[array[int], array[int]]] = {}  # producer -> times, requests
        self._markers: list[tuple[int, int, int]] = []  # fetch, time of its answer, producer

    def reads(self, index: int) -> Reads:
        """Return what the captured answer of a fetch had."""
        return self._reads.get(index, NOTHING_READ)

    def writers_before(self, partition: TopicPartition, offset: int) -> tuple["array[int]", int]:
        """Return the requests that wrote a partition, and how many of them wrote before an offset."""
        writers = self._writers.get(partition)
        if writers is None:
            return NO_PRODUCES, 0
        return writers.requests, bisect_left(writers.offsets, offset)

    def first_written(self, topic: str | None, number: int) -> int | None:
        """Return the first offset of a partition that a captured request wrote; None if there is none."""
        writers = self._writers.get((topic or "", number))
        return writers.offsets[0] if writers else None

    def take(self, request: Request, body: Tree, response: Tree, client: ClientKey, names: Names) -> None:
        """Learn from a request that will be sent, and its response."""
        if request.key == ApiKey.FETCH:
            self._take_fetch(request, response, client, names)
        elif request.key == ApiKey.PRODUCE:
            for partition, each in _partitions(response, names, "name", "partition_responses", "index"):
                if not each["error_code"] and each["base_offset"] >= 0:
                    self.add_write(partition, each["base_offset"], request.index)
        elif request.key == ApiKey.END_TXN:
            times, requests = self._transaction_ends.setdefault(body["producer_id"], (array("q"), array("q")))
            times.append(request.first_ns)
            requests.append(request.index)
        elif request.key in OFFSET_COMMITS:
            self._take_commit(request, body, client, names)

    def add_write(self, partition: TopicPartition, offset: int, index: int) -> None:
        """Note that a request wrote a batch at a captured offset."""
        self._writers[partition].add(offset, index)

    def finish(self) -> None:
        """Find what needs the whole capture."""
        for writers in self._writers.values():
            writers.sort()
        for index, answered_ns, producer in self._markers:
            times, requests = self._transaction_ends.get(producer, (NO_PRODUCES, NO_PRODUCES))
            place = bisect_left(times, answered_ns) - 1
            if place >= 0:
                self.before[index] = (*self.before.get(index, ()), requests[place])
        self._markers.clear()
        self._readers.clear()
        self._transaction_ends.clear()

    def _take_fetch(self, request: Request, response: Tree, client: ClientKey, names: Names) -> None:
        reads: dict[TopicPartition, PartitionRead] = {}
        answered_ns = request.answered_ns or request.first_ns
        for partition, each in _partitions(response, names, "topic", "partitions", "partition_index"):
            records = each["records"] or b""
            following = following_offset(records) if records else None
            if following is None or each["error_code"]:
                continue
            reads[partition] = PartitionRead(following, len(records))
            for producer in set(_producers_of_markers(records)):
                self._markers.append((request.index, answered_ns, producer))
            times, requests = self._readers.setdefault((client, partition), (array("q"), array("q")))
            times.append(answered_ns)
            requests.append(request.index)
        if reads:
            self._reads[request.index] = reads

    def _take_commit(self, request: Request, body: Tree, client: ClientKey, names: Names) -> None:
        last = set()
        for topic in body["topics"]:
            for each in topic["partitions"]:
                partition = (names.captured_topic(topic) or "", each["partition_index"])
                times, requests = self._readers.get((client, partition), (NO_PRODUCES, NO_PRODUCES))
                place = bisect_left(times, request.first_ns) - 1
                if place >= 0:
                    last.add(requests[place])
        if last:
            self.before[request.index] = tuple(last)


def _partitions(
    response: Tree, names: Names, topic_field: str, partitions: str, number: str
) -> Iterator[tuple[TopicPartition, Tree]]:
    for topic in response.get("responses") or ():
        name = names.captured_topic(topic, topic_field)
        if name is not None:
            for each in topic[partitions]:
                yield (name, each[number]), each


def _producers_of_markers(records: bytes) -> Iterator[int]:
    """Yield the producers whose transactions end within the records of a fetch."""
    for batch in whole_batches(records):
        if batch.magic == 2 and records[batch.start + LAST_OF_ATTRIBUTES] & CONTROL:
            place = batch.start + PRODUCER_ID_AT
            yield int.from_bytes(records[place : place + 8], "big", signed=True)
