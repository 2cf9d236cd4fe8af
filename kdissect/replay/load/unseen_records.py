"""Records that the unseen requests of a log wrote and read, by their facts: columns for all shapes at once.

In: the response of the first request of each shape, which names partitions, and the facts of the others (see
`request_shapes`). Out: the same as a look at each of them would tell `CapturedReads`.
"""

from array import array
from collections.abc import Iterable, Iterator

import numpy as np

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.identifiers import ClientKey, TopicPartition
from kdissect.replay.load.logged_shapes import RequestFacts
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.request_shapes import NO_SHAPE
from kdissect.replay.load.request_table import Interned
from kdissect.replay.load.shaped_messages import FETCHED, NONE, PRODUCED, FetchedFacts, ProducedFacts
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.tables.column_values import run_starts


class _ShapePlaces:
    """For each shape a number for each partition in its responses, by its place there."""

    def __init__(self) -> None:
        self._begins, self._numbers = array("q"), array("q", [NONE])

    def put(self, shape: int, numbers: Iterable[int]) -> None:
        """Set the numbers of a shape."""
        missing = shape + 1 - len(self._begins)
        self._begins.extend([NONE] * missing)
        self._begins[shape] = len(self._numbers)
        self._numbers.extend(numbers)

    def of(self, shapes: Int64s, places: Int64s) -> Int64s:
        """Return the numbers at some places of shapes; NONE for a shape without numbers."""
        begins = np.full(max(int(shapes.max(initial=NONE)) + 1, len(self._begins)), NONE, np.int64)
        begins[: len(self._begins)] = self._begins
        begin = begins[shapes]
        numbers: Int64s = np.array(self._numbers, np.int64)[np.where(begin == NONE, 0, begin + places)]
        return numbers


class UnseenRecords:
    """The shapes by which unseen requests are read."""

    def __init__(self, loaded: ReplayInput) -> None:
        self._loaded = loaded
        self._partitions = Interned[TopicPartition]()
        self._readers = Interned[tuple[ClientKey, TopicPartition]]()
        self._written, self._read = _ShapePlaces(), _ShapePlaces()

    def learn(self, shape: int, key: int, response: Tree, client: ClientKey) -> None:
        """Learn which partitions the responses of a shape have, of requests that will be sent."""
        names = self._loaded.names
        if key == ApiKey.PRODUCE:
            named = _partitions(response, names, "name", "partition_responses", "index")
            numbers = (NONE if each is None else self._partitions.number(each) for each in named)
            self._written.put(shape, numbers)
        elif key == ApiKey.FETCH:
            named = _partitions(response, names, "topic", "partitions", "partition_index")
            numbers = (NONE if each is None else self._readers.number((client, each)) for each in named)
            self._read.put(shape, numbers)

    def add(self, facts: RequestFacts, unseen: Int64s) -> None:
        """Add what unseen requests wrote and read, which are among those with the facts, in their order."""
        items, end = self._loaded.items, facts.first + len(facts.edges) - 1
        keys = items.column("key", facts.first, end)[unseen - facts.first]
        self._add_writes(facts, unseen[keys == ApiKey.PRODUCE])
        self._add_reads(facts, unseen[keys == ApiKey.FETCH], items.column("answered_ns", facts.first, end))

    def _add_writes(self, facts: RequestFacts, requests: Int64s) -> None:
        loaded = self._loaded
        rows, owners = facts.rows(requests, PRODUCED)
        columns = ProducedFacts(*rows.T)
        loaded.records += int(columns.records.sum())
        loaded.record_bytes += int(columns.size.sum())
        numbers = self._written.of(self._shapes(owners), _places(owners))
        written = np.flatnonzero((columns.offset != NONE) & (numbers != NONE))
        for number, some in _by_number(numbers, written):
            loaded.reads.add_writes(self._partitions.values[number], columns.offset[some], owners[some])

    def _add_reads(self, facts: RequestFacts, requests: Int64s, answered_ns: Int64s) -> None:
        reads = self._loaded.reads
        rows, owners = facts.rows(requests, FETCHED)
        columns = FetchedFacts(*rows.T)
        numbers = self._read.of(self._shapes(owners), _places(owners))
        read = np.flatnonzero((columns.following != NONE) & (numbers != NONE))
        partitions = [reads.number(partition) for _, partition in self._readers.values]
        reads.add_reads(
            owners[read],
            np.array(partitions, np.int64)[numbers[read]],
            columns.following[read],
            columns.size[read],
        )
        committed = np.array([reads.is_committed(*reader) for reader in self._readers.values], bool)
        for number, some in _by_number(numbers, read[committed[numbers[read]]]):
            times_ns = answered_ns[owners[some] - facts.first]
            reads.add_reader(*self._readers.values[number], times_ns, owners[some])

    def _shapes(self, requests: Int64s) -> Int64s:
        shapes = self._loaded.known.shapes
        assert shapes is not None
        found: Int64s = shapes[requests].astype(np.int64)
        assert NO_SHAPE not in found
        return found


def _places(owners: Int64s) -> Int64s:
    """Return for rows of requests that follow each other the place of each in its request."""
    begins = run_starts(owners)
    counts = np.diff(np.append(begins, len(owners)))
    places: Int64s = np.arange(len(owners)) - np.repeat(begins, counts)
    return places


def _by_number(numbers: Int64s, rows: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Yield the rows of each number in their order."""
    order = rows[np.argsort(numbers[rows], kind="stable")]
    edges = np.flatnonzero(np.diff(numbers[order])) + 1
    for some in np.split(order, edges) if len(order) else ():
        yield int(numbers[some[0]]), some


def _partitions(
    response: Tree, names: Names, topic_field: str, partitions: str, number: str
) -> Iterator[TopicPartition | None]:
    """Yield the partitions of a response in their order; None for one whose topic has no name."""
    for topic in response.get("responses") or ():
        name = names.captured_topic(topic, topic_field)
        for each in topic[partitions]:
            yield None if name is None else (name, each[number])
