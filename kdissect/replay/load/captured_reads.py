"""Dependencies of the capture's reads and commits: the produces, transactions and fetches that came before.

In: every request with its response, in the order of the capture. Out, by request:

- `reads`: what the captured answer of a fetch had, partition by partition;
- `writers_before`: the Produce requests that wrote a partition up to an offset;
- `before`: for a fetch whose answer had the end of a transaction the request that ended it, for a commit the
  last fetch of its client that brought something of a partition that it commits.

A topic that is deleted and created again has another incarnation: its offsets begin at 0 again, and mean
other records. The number of an incarnation is that of the request that ended the one before, also if that is
not sent.

These are facts of the capture (*happens-before*): no client reads what is not written. A request that is not
sent is no condition.
"""

import struct
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.protocol.records.batches import (
    ATTRIBUTES_AT,
    CONTROL,
    PRODUCER_ID_AT,
    following_offset,
    whole_batches,
)
from kdissect.replay.identifiers import ClientKey, TopicPartition
from kdissect.replay.load.request_table import Interned, Request
from kdissect.replay.load.row_file import RowFile
from kdissect.replay.rewrite.names import Names, Tree

LAST_OF_ATTRIBUTES = ATTRIBUTES_AT + 1  # the byte with all bits that brokers use
NO_PRODUCES = array("q")
FIRST_INCARNATION = -1  # of a topic: no request of the capture had deleted it


class PartitionRead(NamedTuple):
    """Contents of a captured answer for one partition."""

    following: int  # the offset behind its last whole batch
    size: int  # bytes of its records


Reads = Mapping[TopicPartition, PartitionRead]
NOTHING_READ: Reads = {}


class _Writers:
    """The Produce requests that wrote a partition, by the captured offset of their batches."""

    def __init__(self) -> None:
        self.offsets, self.requests = array("q"), array("i")
        self._sorted = True

    def add(self, offset: int, request: int) -> None:
        self._sorted = self._sorted and (not self.offsets or offset >= self.offsets[-1])
        self.offsets.append(offset)
        self.requests.append(request)

    def extend(self, offsets: Int64s, requests: Int64s) -> None:
        self._sorted = False
        self.offsets.frombytes(offsets.tobytes())
        self.requests.frombytes(requests.astype(np.int32).tobytes())

    def sort(self) -> None:
        if not self._sorted:
            self.offsets, self.requests = _sorted(self.offsets, self.requests)
            self._sorted = True


def _sorted(first: "array[int]", second: "array[int]") -> tuple["array[int]", "array[int]"]:
    """Return two columns sorted by the first, then by the second."""
    columns = first, second
    order = np.lexsort([np.frombuffer(column, column.typecode) for column in columns[::-1]])
    one, other = (
        array(column.typecode, np.frombuffer(column, column.typecode)[order].tobytes()) for column in columns
    )
    return one, other


READ_ROW = struct.Struct("<qqi")  # offset and size as in `PartitionRead`, number of the partition
READ_DTYPE = np.dtype([("following", "<i8"), ("size", "<i8"), ("partition", "<i4")])


class _ReadRows:
    """Contents of fetch answers, a row for each partition, in the order of the requests."""

    def __init__(self) -> None:
        self.partitions = Interned[TopicPartition]()
        self._requests, self._rows = array("i"), RowFile(READ_ROW.size)

    def add(self, requests: Int64s, partitions: Int64s, following: Int64s, sizes: Int64s) -> None:
        rows = np.empty(len(requests), READ_DTYPE)
        for name, column in (("following", following), ("size", sizes), ("partition", partitions)):
            rows[name] = column
        self._requests.frombytes(requests.astype(np.int32).tobytes())
        self._rows.append(rows.tobytes())

    def reads(self, index: int) -> Reads:
        requests, row = self._requests, bisect_left(self._requests, index)
        found = {}
        while row < len(requests) and requests[row] == index:
            following, size, number = READ_ROW.unpack_from(*self._rows.place(row))
            found[self.partitions.values[number]] = PartitionRead(following, size)
            row += 1
        return found or NOTHING_READ


class CapturedReads:
    """Learns from all requests in order; complete after `finish`."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[int, ...]] = {}
        self.unacknowledged: set[TopicPartition] = set()  # that are written without responses (acks=0)
        self._reads: dict[int, Reads] = {}
        # By incarnation of the topic. Until `finish`, all are those of the first one.
        self._writers: dict[tuple[TopicPartition, int], _Writers] = defaultdict(_Writers)
        self._deletions: dict[str, array[int]] = {}  # topic -> the requests that deleted it
        self._readers: dict[tuple[ClientKey, TopicPartition], tuple[array[int], array[int]]] = {}
        self._transaction_ends: dict[int, tuple[array[int], array[int]]] = {}  # producer -> times, requests
        self._markers: list[tuple[int, int, int]] = []  # fetch, time of its answer, producer
        self._commits: list[tuple[int, int, ClientKey, tuple[TopicPartition, ...]]] = []  # request, its time
        self._rows = _ReadRows()  # of requests that were not looked at
        self._committed: set[tuple[ClientKey, TopicPartition]] = set()

    def reads(self, index: int) -> Reads:
        """Return what the captured answer of a fetch had."""
        known = self._reads.get(index)
        return self._rows.reads(index) if known is None else known

    def incarnation(self, topic: str, index: int) -> int:
        """Return the incarnation of a topic that a request is about.

        It is the last request before this one that deleted the topic, `FIRST_INCARNATION` if there is none.
        """
        deletions = self._deletions.get(topic)
        place = bisect_left(deletions, index) if deletions else 0
        return deletions[place - 1] if deletions and place else FIRST_INCARNATION

    def writers_before(
        self, partition: TopicPartition, offset: int, incarnation: int = FIRST_INCARNATION
    ) -> tuple["array[int]", int]:
        """Return the requests that wrote a partition, and how many of them wrote before an offset."""
        writers = self._writers.get((partition, incarnation))
        if writers is None:
            return NO_PRODUCES, 0
        return writers.requests, bisect_left(writers.offsets, offset)

    def writers_of(self, topic: str) -> Iterator["array[int]"]:
        """Yield the requests that wrote each partition of a topic, incarnation by incarnation."""
        return (each.requests for ((name, _), _), each in self._writers.items() if name == topic)

    def first_written(self, topic: str | None, number: int) -> int | None:
        """Return the first offset of a partition that a captured request wrote; None if there is none."""
        name = topic or ""
        incarnations = FIRST_INCARNATION, *self._deletions.get(name, ())
        writers = (self._writers.get(((name, number), each)) for each in incarnations)
        return min((each.offsets[0] for each in writers if each), default=None)

    def take(self, request: Request, body: Tree, response: Tree, client: ClientKey, names: Names) -> None:
        """Learn from a request that will be sent, and its response."""
        if request.key == ApiKey.FETCH:
            self._take_fetch(request, response, client, names)
        elif request.key == ApiKey.PRODUCE:
            if not body["acks"]:
                self.unacknowledged.update(
                    (names.captured_topic(topic) or "", each["index"])
                    for topic in body["topic_data"]
                    for each in topic["partition_data"]
                )
            for partition, each in _partitions(response, names, "name", "partition_responses", "index"):
                if not each["error_code"] and each["base_offset"] >= 0:
                    self.add_write(partition, each["base_offset"], request.index)
        elif request.key == ApiKey.END_TXN:
            times, requests = self._transaction_ends.setdefault(body["producer_id"], (array("q"), array("q")))
            times.append(request.first_ns)
            requests.append(request.index)
        elif request.key in OFFSET_COMMITS:
            self._take_commit(request, body, client, names)

    def note_deletion(self, index: int, response: Tree, names: Names) -> None:
        """Learn from a request that deletes topics, whether it will be sent or not, and its response."""
        for each in response.get("responses") or ():
            topic = names.captured_topic(each)
            if topic is not None and not each["error_code"]:
                self._deletions.setdefault(topic, array("q")).append(index)

    def add_write(self, partition: TopicPartition, offset: int, index: int) -> None:
        """Note that a request wrote a batch at a captured offset."""
        self._writers[partition, FIRST_INCARNATION].add(offset, index)

    def add_writes(self, partition: TopicPartition, offsets: Int64s, requests: Int64s) -> None:
        """Note that requests wrote batches at captured offsets."""
        self._writers[partition, FIRST_INCARNATION].extend(offsets, requests)

    def number(self, partition: TopicPartition) -> int:
        """Return the number of a partition for `add_reads`."""
        return self._rows.partitions.number(partition)

    def add_reads(self, requests: Int64s, partitions: Int64s, following: Int64s, sizes: Int64s) -> None:
        """Note what the answers of fetches had, as in `PartitionRead`.

        The requests follow those that were added before, and have been looked at by nobody.
        """
        self._rows.add(requests, partitions, following, sizes)

    def is_committed(self, client: ClientKey, partition: TopicPartition) -> bool:
        """Return whether a client commits offsets of a partition, in a request that was looked at."""
        return (client, partition) in self._committed

    def add_reader(
        self, client: ClientKey, partition: TopicPartition, answered_ns: Int64s, requests: Int64s
    ) -> None:
        """Note which fetches of a client read something of a partition, and when they were answered."""
        times, readers = self._readers.setdefault((client, partition), (array("q"), array("q")))
        times.frombytes(answered_ns.tobytes())
        readers.frombytes(requests.tobytes())

    def finish(self) -> None:
        """Find what needs the whole capture."""
        for partition in [each for each, _ in self._writers if each[0] in self._deletions]:
            writers = self._writers.pop((partition, FIRST_INCARNATION))
            for offset, request in zip(writers.offsets, writers.requests, strict=True):
                self._writers[partition, self.incarnation(partition[0], request)].add(offset, request)
        for writers in self._writers.values():
            writers.sort()
        readers = {reader: _sorted(*columns) for reader, columns in self._readers.items()}
        for index, first_ns, client, partitions in self._commits:
            last = set()
            for partition in partitions:
                times, requests = readers.get((client, partition), (NO_PRODUCES, NO_PRODUCES))
                place = bisect_left(times, first_ns) - 1
                if place >= 0:
                    last.add(requests[place])
            if last:
                self.before[index] = tuple(last)
        self._commits.clear()
        for index, answered_ns, producer in self._markers:
            times, requests = self._transaction_ends.get(producer, (NO_PRODUCES, NO_PRODUCES))
            place = bisect_left(times, answered_ns) - 1
            if place >= 0:
                self.before[index] = (*self.before.get(index, ()), requests[place])
        self._markers.clear()
        self._readers.clear()
        self._transaction_ends.clear()
        self._committed.clear()

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
        partitions = tuple(
            (names.captured_topic(topic) or "", each["partition_index"])
            for topic in body["topics"]
            for each in topic["partitions"]
        )
        if partitions:
            self._commits.append((request.index, request.first_ns, client, partitions))
            self._committed.update((client, partition) for partition in partitions)


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
