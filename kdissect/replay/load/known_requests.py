"""Which requests of a log need no look, since an earlier one of their shape has told all of it.

In: the shapes of all requests (`request_shapes`), and the columns of the requests. Out: which of them have to
be looked at, in order; more can be marked while the load goes on.

A request is looked at if it is the first of its shape, or has none. So is a Produce request that may be a
retry or tells an order (`telling_produces`), and each one if the capture has producers without facts.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int32s, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.load.logged_shapes import LoggedShapes
from kdissect.replay.load.request_shapes import NO_SHAPE
from kdissect.replay.load.request_table import ROWS_AT_ONCE, Request, RequestTable
from kdissect.replay.load.shaped_messages import PRODUCED, ProducedFacts
from kdissect.replay.load.telling_produces import telling_produces

LOOK = b"\x01"
EMPTY = np.zeros(0, np.int64)


class AlikeRequests(NamedTuple):
    """Requests of one shape for which the same was decided."""

    first: int
    size: int


class KnownRequests:
    """The requests of a log by their shapes."""

    def __init__(
        self, table: Sequence[Request], logged: LoggedShapes | None, hosts: Mapping[int, str]
    ) -> None:
        """`hosts` are those of clients, by connection. Without shapes every request has to be looked at."""
        self.logged = logged if isinstance(table, RequestTable) else None
        self._count, self._marked_anonymous = len(table), False
        self.shapes: Int32s | None = None if self.logged is None else self.logged.shapes
        self._firsts = self._lasts = self._sizes = array("i")  # of each shape
        self._mask = bytearray(LOOK) * self._count
        self._whole = bytearray()  # 1 for a shape of which every request is looked at
        self._next = 0  # the first request whose turn has not come
        if self.shapes is not None and isinstance(table, RequestTable) and self.logged is not None:
            self._table = table
            self._learn_shapes(self.shapes)
            for requests in telling_produces(table, self.logged, hosts):
                self._looked()[requests] = 1

    def _learn_shapes(self, shapes: Int32s) -> None:
        """Find the first and the last request of each shape, and how many it has."""
        count = int(shapes.max(initial=NO_SHAPE)) + 1
        firsts, lasts, sizes = (np.zeros(count, np.int32) for _ in range(3))
        for begin in reversed(range(0, self._count, ROWS_AT_ONCE)):
            requests = _shaped(shapes, begin)
            firsts[shapes[requests[::-1]]] = requests[::-1]  # the last one that is written remains
            sizes += np.bincount(shapes[requests], minlength=count).astype(np.int32)
        looked = self._looked()
        for begin in range(0, self._count, ROWS_AT_ONCE):
            requests = _shaped(shapes, begin)
            lasts[shapes[requests]] = requests
            looked[requests] = firsts[shapes[requests]] == requests
        self._firsts, self._lasts, self._sizes = (
            array("i", column.tobytes()) for column in (firsts, lasts, sizes)
        )
        self._whole = bytearray(count)

    def _looked(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._mask, np.uint8)

    def __iter__(self) -> Iterator[int]:
        """Yield the requests that have to be looked at, also those that are marked meanwhile."""
        for begin in range(0, self._count, ROWS_AT_ONCE):
            end = min(begin + ROWS_AT_ONCE, self._count)
            self._next = begin
            if self.shapes is not None and any(self._whole):
                requests = _shaped(self.shapes, begin)
                whole = np.frombuffer(self._whole, bool)[self.shapes[requests]]
                self._looked()[requests[whole]] = 1
            while (index := self._mask.find(LOOK, self._next, end)) >= 0:
                self._next = index + 1
                yield index

    def mark_shape(self, index: int) -> None:
        """Have all requests of the shape of a request looked at whose turn has not come."""
        if self.shapes is None or self.shapes[index] == NO_SHAPE:
            return
        self._whole[self.shapes[index]] = 1
        end = (self._next // ROWS_AT_ONCE + 1) * ROWS_AT_ONCE  # later ones are marked when they come up
        same = np.flatnonzero(self.shapes[self._next : end] == self.shapes[index])
        self._looked()[self._next + same] = 1

    def mark_anonymous(self) -> None:
        """Have all Produce requests without a producer id looked at whose turn has not come."""
        if self.logged is None or self._marked_anonymous:
            return
        self._marked_anonymous = True
        for facts in self.logged.facts():
            end = facts.first + len(facts.edges) - 1
            columns = (self._table.column(name, facts.first, end) for name in ("key", "complete"))
            keys, complete = columns
            produces = facts.first + np.flatnonzero((keys == ApiKey.PRODUCE) & complete)
            rows, requests = facts.rows(produces[produces >= self._next], PRODUCED)
            self._looked()[requests[ProducedFacts(*rows.T).producer < 0]] = 1

    def forget_facts(self) -> None:
        """Keep no more than what `first_of` and `alike` need: all has been learnt."""
        self.logged, self._mask = None, bytearray()

    # Shapes

    def shape_of(self, index: int) -> int:
        """Return the number of the shape of a request, NO_SHAPE without one."""
        return NO_SHAPE if self.shapes is None else int(self.shapes[index])

    def first_of(self, index: int) -> int:
        """Return the first request of the shape of a request."""
        shape = self.shape_of(index)
        return index if shape == NO_SHAPE else self._firsts[shape]

    def last_like(self, index: int) -> int:
        """Return the last request of the shape of a request."""
        shape = self.shape_of(index)
        return index if shape == NO_SHAPE else self._lasts[shape]

    def count_like(self, index: int) -> int:
        """Return how many requests the shape of a request has."""
        shape = self.shape_of(index)
        return 1 if shape == NO_SHAPE else self._sizes[shape]

    def firsts_of(self, requests: Int64s) -> Int64s:
        """Return the first request of the shape of each of some requests."""
        if self.shapes is None or not len(self._firsts):
            return requests
        shapes = self.shapes[requests]
        return np.where(shapes == NO_SHAPE, requests, np.frombuffer(self._firsts, np.int32)[shapes])

    def unseen(self, first: int, stop: int) -> Int64s:
        """Return the requests that need no look, of those from `first` on and before `stop`."""
        return first + np.flatnonzero(self._looked()[first:stop] == 0)

    def alike(self, decisions: Callable[[Int64s], Int32s]) -> "AlikeGroups":
        """Return groups of requests; `decisions` returns a number for what was decided for each of some."""
        return AlikeGroups(self, self._count, decisions)


class AlikeGroups:
    """Requests of one shape for which the same was decided, by the first of them.

    One for which something else was decided than for the first of its shape is a group of its own.
    """

    def __init__(self, known: KnownRequests, count: int, decisions: Callable[[Int64s], Int32s]) -> None:
        self._known, self._count = known, count
        self._begins = bytearray(count)  # 1 for the first of each group
        self._apart: Counter[int] = Counter()  # first of a shape -> requests of it in groups of their own
        for requests in self._blocks():
            firsts = known.firsts_of(requests)
            apart = decisions(requests) != decisions(firsts)
            np.frombuffer(self._begins, np.uint8)[requests] = apart | (firsts == requests)
            self._apart.update(firsts[apart].tolist())

    def _blocks(self) -> Iterator[Int64s]:
        for begin in range(0, self._count, ROWS_AT_ONCE):
            yield np.arange(begin, min(begin + ROWS_AT_ONCE, self._count))

    def __iter__(self) -> Iterator[AlikeRequests]:
        """Yield the groups in the order of their first requests."""
        index = self._begins.find(LOOK)
        while index >= 0:
            first = self._known.first_of(index)
            alone = first != index
            yield AlikeRequests(index, 1 if alone else self._known.count_like(index) - self._apart[index])
            index = self._begins.find(LOOK, index + 1)

    def members(self, first: int) -> Int64s:
        """Return the requests of a group."""
        found = [EMPTY]
        for requests in self._blocks():
            mine = (self._known.firsts_of(requests) == first) & (self._begin_mask(requests) == 0)
            found.append(requests[mine | (requests == first)])
        return np.concatenate(found)

    def spread(self, values: bytearray) -> None:
        """Have the value of the first request of each group at all others that have none (0)."""
        column = np.frombuffer(values, np.uint8)
        for requests in self._blocks():
            of_first = np.where(
                self._begin_mask(requests) == 1, column[requests], column[self._known.firsts_of(requests)]
            )
            column[requests] = np.where(column[requests] == 0, of_first, column[requests])

    def _begin_mask(self, requests: Int64s) -> NDArray[np.uint8]:
        mask: NDArray[np.uint8] = np.frombuffer(self._begins, np.uint8)[requests]
        return mask


def _shaped(shapes: Int32s, begin: int) -> Int64s:
    """Return the requests with a shape, of so many as are looked at at once."""
    return begin + np.flatnonzero(shapes[begin : begin + ROWS_AT_ONCE] != NO_SHAPE)
