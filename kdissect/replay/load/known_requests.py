"""Which requests of a log need no look, since an earlier one of their shape has told all of it.

In: the shapes and facts of all requests (`request_shapes`), and the columns of the requests. Out: a mask of
those that have to be looked at, in which more can be marked while the load goes on, and the facts of the
others.

A request is looked at if it is the first of its shape, or has none. So is a Produce request that may be a
retry (its producer wrote the same sequence number twice), one before or after which its producer changed the
connection, and each one if the capture has producers without facts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.load.frame_places import ranges
from kdissect.replay.load.request_shapes import NO_SHAPE
from kdissect.replay.load.request_table import ROWS_AT_ONCE, Int32s, Request, RequestTable, numbered
from kdissect.replay.load.shaped_messages import NONE, PRODUCED, ProducedFacts
from kdissect.streams.flow_state import Int64s

LOOK = b"\x01"
SEQUENCE, PARTITION, EPOCH, PRODUCER = (
    ProducedFacts._fields.index(name) for name in ("sequence", "partition", "epoch", "producer")
)


@dataclass(frozen=True, slots=True)
class LoggedShapes:
    """The shapes of all requests of a log, and their facts. `edges` says where those of each begin."""

    shapes: Int32s
    edges: Int64s
    facts: Int64s

    def rows(self, requests: Int64s, width: int) -> tuple[Int64s, Int64s]:
        """Return the facts of some requests as rows of a width, and the request of each row."""
        counts = self.edges[requests + 1] - self.edges[requests]
        return self.facts[ranges(self.edges[requests], counts)].reshape(-1, width), np.repeat(
            requests, counts // width
        )

    def columns(self, requests: Int64s, width: int, wanted: Sequence[int]) -> list[Int64s]:
        """Return some columns of the facts of requests, in rows of a width, and the request of each row."""
        counts = self.edges[requests + 1] - self.edges[requests]
        columns = [np.empty(int(counts.sum()) // width, np.int64) for _ in range(len(wanted) + 1)]
        filled = 0
        for begin in range(0, len(requests), ROWS_AT_ONCE):
            rows, owners = self.rows(requests[begin : begin + ROWS_AT_ONCE], width)
            for column, values in zip(columns, (*rows.T[list(wanted)], owners), strict=True):
                column[filled : filled + len(owners)] = values
            filled += len(owners)
        return columns


class KnownRequests:
    """The requests of a log by their shapes."""

    def __init__(self, table: Sequence[Request], logged: LoggedShapes | None, hosts: dict[int, str]) -> None:
        """`hosts` are those of clients, by connection. Without shapes every request has to be looked at."""
        count = len(table)
        self.logged, self._marked_anonymous = logged, False
        self._order = np.zeros(0, np.int32)
        self._starts = np.zeros(1, np.int64)
        self.first: Int32s = np.arange(count, dtype=np.int32)  # the first request of the shape of each
        looked = np.ones(count, bool)
        if logged is not None and isinstance(table, RequestTable):
            shapes = logged.shapes
            shaped = np.flatnonzero(shapes != NO_SHAPE).astype(np.int32)
            self._order = shaped[np.argsort(shapes[shaped], kind="stable")]
            every = np.arange(int(shapes.max(initial=NO_SHAPE)) + 2)
            self._starts = np.searchsorted(shapes[self._order], every)
            firsts = np.append(self._order, 0)[self._starts[:-1]]
            self.first[self._order] = firsts[shapes[self._order]]
            looked = self.first == np.arange(count, dtype=np.int32)
            keys = table.column("key")
            self._produces = np.flatnonzero((keys == ApiKey.PRODUCE) & table.column("complete"))
            looked[self._telling_produces(table, logged, hosts)] = True
        self._mask = bytearray(looked.tobytes())
        self._next = 0  # the first request whose turn has not come

    def __iter__(self) -> Iterator[int]:
        """Yield the requests that have to be looked at, also those that are marked meanwhile."""
        while (index := self._mask.find(LOOK, self._next)) >= 0:
            self._next = index + 1
            yield index

    def mark(self, requests: Int64s) -> None:
        """Have requests looked at, of those whose turn has not come."""
        np.frombuffer(self._mask, np.uint8)[requests[requests >= self._next]] = 1

    def others_like(self, index: int) -> Int64s:
        """Return all requests of the shape of a request, which is the first of them."""
        if self.logged is None or self.logged.shapes[index] == NO_SHAPE:
            return np.array([index])
        shape = self.logged.shapes[index]
        return self._order[self._starts[shape] : self._starts[shape + 1]].astype(np.int64)

    def alike(self, decisions: Int32s) -> Iterator[Int64s]:
        """Yield all requests, those of one shape for which the same was decided together.

        Groups come in the order of their first requests.
        """
        every = np.arange(len(self.first), dtype=np.int32)
        first = np.where(decisions == decisions[self.first], self.first, every)
        order = np.argsort(first, kind="stable")
        first = first[order]
        edges = np.flatnonzero(first[1:] != first[:-1]) + 1
        yield from np.split(order, edges) if len(order) else ()

    def unseen(self) -> Int64s:
        """Return the requests that need no look."""
        return np.flatnonzero(np.frombuffer(self._mask, np.uint8) == 0)

    def unseen_like(self, index: int) -> Int64s:
        """Return the requests of the shape of a request that need no look."""
        others = self.others_like(index)
        unseen: Int64s = others[np.frombuffer(self._mask, np.uint8)[others] == 0]
        return unseen

    def mark_anonymous(self) -> None:
        """Have all Produce requests without a producer id looked at."""
        if self.logged is not None and not self._marked_anonymous:
            self._marked_anonymous = True
            producer, requests = self.logged.columns(self._produces, PRODUCED, [PRODUCER])
            self.mark(requests[producer < 0])

    def _telling_produces(self, table: RequestTable, logged: LoggedShapes, hosts: dict[int, str]) -> Int64s:
        """Return the Produce requests that may be retries, or tell an order."""
        produces = self._produces[table.column("version")[self._produces] >= 0]
        if (logged.edges[produces + 1] == logged.edges[produces]).any():
            return produces
        return np.concatenate(
            [_repeated_produces(produces, logged), _moved_produces(produces, table, logged, hosts)]
        )


def _repeated_produces(produces: Int64s, logged: LoggedShapes) -> Int64s:
    """Return the requests whose producer wrote the same sequence number twice."""
    *keys, requests = logged.columns(produces, PRODUCED, [SEQUENCE, PARTITION, EPOCH, PRODUCER])
    order = np.lexsort(keys)
    equal = np.flatnonzero(_equal_neighbours(keys, order))
    equal = equal[keys[-1][order[equal]] >= 0]  # those of numbered producers
    repeated: Int64s = requests[np.concatenate([order[equal], order[equal + 1]])]
    return repeated


def _moved_produces(
    produces: Int64s, table: RequestTable, logged: LoggedShapes, hosts: Mapping[int, str]
) -> Int64s:
    """Return the requests before and after which a producer changed the connection."""
    partition, producer, requests = logged.columns(produces, PRODUCED, [PARTITION, PRODUCER])
    each, numbers = numbered(table.column("connection"))
    connections = numbers[requests]
    hosts_of = {name: number for number, name in enumerate(sorted(set(hosts.values())))}
    host = np.array([hosts_of.get(hosts.get(one, ""), NONE) for one in each.tolist()], np.int64)[connections]
    host[producer >= 0] = NONE
    order = np.lexsort([requests, partition, host, producer])
    connections = connections[order]
    changes = np.flatnonzero(
        _equal_neighbours((partition, host, producer), order) & (connections[1:] != connections[:-1])
    )
    return np.concatenate([requests[order[changes]], requests[order[changes + 1]]])


def _equal_neighbours(columns: Iterable[Int64s], order: Int64s) -> NDArray[np.bool_]:
    """Return for each row but the first, in some order, whether it equals the one before in all columns."""
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in columns:
        sorted_column = column[order]
        same &= sorted_column[1:] == sorted_column[:-1]
    return same
