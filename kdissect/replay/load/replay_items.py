"""The requests of a replay on their way to their disposition, as columns beside those of the capture.

A `ReplayItem` is made when somebody wants one, so what it says is changed here and not in the object.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int32s, Int64s
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.request_table import ROWS_AT_ONCE, Chosen, Interned, Request, column_of, columns_of

NO_ANCHOR = (-1, 0)
NO_RESPONSE = -(1 << 15) - 1  # as the error: below every error code


@dataclass(slots=True)
class ReplayItem:
    """One captured request on its way to its disposition."""

    request: Request
    client_id: str | None
    refusal: Refusal | None = None
    transaction: str | None = None  # its transactional id
    anchor: int = -1  # the request whose response the client saw last before it sent this one
    gap_ns: int = 0  # from that response to this request; without anchor from the connection's first request
    error: int | None = None  # the first error of the captured response, 0 for none; None: no response


class ItemKind(NamedTuple):
    """Facts of a `ReplayItem` that many others have as well. Their texts are kept once."""

    client_id: str | None = None
    refusal: Refusal | None = None
    transaction: str | None = None
    error: int = NO_RESPONSE


def request_column(
    items: Sequence[ReplayItem], name: str, first: int = 0, stop: int | None = None
) -> NDArray[Any]:
    """Return a column of the requests of any items (see `column_of`); "sent" is `sent_mask`."""
    if name == "sent":
        return sent_mask(items, first, stop)
    if isinstance(items, ReplayItems):
        return items.column(name, first, stop)
    if isinstance(items, Chosen) and isinstance(items.every, ReplayItems):
        places = items.numbers[first:stop]
        least = int(places.min(initial=len(items.every)))
        column: NDArray[Any] = items.every.column(name, least, int(places.max(initial=-1)) + 1)
        chosen: NDArray[Any] = column[places - least]
        return chosen
    return column_of([item.request for item in items[first:stop]], name)


def request_columns(
    items: Sequence[ReplayItem], names: Sequence[str], first: int, stop: int
) -> list[NDArray[Any]]:
    """Return several columns of the requests of any items (see `request_column`), by reading them once."""
    if isinstance(items, ReplayItems):
        return items.columns(names, first, stop)
    if isinstance(items, Chosen) and isinstance(items.every, ReplayItems):
        places = items.numbers[first:stop]
        least = int(places.min(initial=len(items.every)))
        columns = items.every.columns(names, least, int(places.max(initial=-1)) + 1)
        return [column[places - least] for column in columns]
    return [request_column(items, name, first, stop) for name in names]


def sent_mask(items: Sequence[ReplayItem], first: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
    """Return which of any items are not refused, or of those from `first` on and before `stop`."""
    if isinstance(items, ReplayItems):
        return items.sent(first, stop)
    if isinstance(items, Chosen) and isinstance(items.every, ReplayItems):
        return items.every.sent_of(items.numbers[first:stop])
    return np.array([item.refusal is None for item in items[first:stop]], bool)


def column_blocks(
    items: Sequence[ReplayItem], *names: str, rows: int = ROWS_AT_ONCE
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield columns of the requests of any items (see `request_column`), of so many requests at a time."""
    for begin in range(0, len(items), rows):
        yield tuple(request_column(items, name, begin, begin + rows) for name in names)


def indices_of(items: Sequence[ReplayItem], places: Int32s) -> Int64s:
    """Return the indices of the requests at some places of any items."""
    if isinstance(items, ReplayItems):
        return places.astype(np.int64)
    if isinstance(items, Chosen) and isinstance(items.every, ReplayItems):
        return items.numbers[places].astype(np.int64)
    return np.array([items[place].request.index for place in places.tolist()], np.int64)


def index_reader(items: Sequence[ReplayItem]) -> Callable[[int], int]:
    """Return what gives the index of the request at a place of any items."""
    if isinstance(items, ReplayItems):
        return int
    if isinstance(items, Chosen) and isinstance(items.every, ReplayItems):
        return items.places.__getitem__
    return lambda place: items[place].request.index


def distinct_of(items: Sequence[ReplayItem], name: str) -> set[int]:
    """Return the distinct values of a column of the requests of any items."""
    return {value for (column,) in column_blocks(items, name) for value in np.unique(column).tolist()}


def refused_requests(items: Sequence[ReplayItem]) -> Iterator[tuple[Int64s, Refusal]]:
    """Yield the indices of the requests of any items that are refused, those of one reason together.

    A reason comes up again for later ones of a long sequence.
    """
    every = items.every if isinstance(items, Chosen) else items
    if isinstance(every, ReplayItems):
        for (indices,) in column_blocks(items, "index"):
            numbers = every.refusals_of(indices)
            for number in np.unique(numbers).tolist():
                refusal = every.refused[number]
                if refusal is not None:
                    yield indices[numbers == number], refusal
        return
    for item in items:
        if item.refusal is not None:
            yield np.array([item.request.index]), item.refusal


class ReplayItems(Sequence[ReplayItem]):
    """The items of all requests, by the index of the request."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._kind_of, self._kinds = array("i"), Interned[ItemKind]()
        self._refused = Interned[Refusal | None]()
        self._refusal_of_kind: list[int] = []
        self._sent_kinds = np.zeros(0, bool)  # as far as somebody has asked
        self._anchors, self._gaps = array("i"), array("q")  # both are empty if nobody asks for them

    def make_room(self) -> None:
        """Have an item for each request, about which nothing is decided."""
        self._kind_of = array("i", [self._number(ItemKind())]) * len(self._requests)

    def put(self, item: ReplayItem) -> None:
        """Set the item of a request."""
        error = NO_RESPONSE if item.error is None else item.error
        kind = ItemKind(item.client_id, item.refusal, item.transaction, error)
        self._kind_of[item.request.index] = self._number(kind)

    def copy(self, indices: Int64s, sources: Int64s) -> None:
        """Set the items of some requests to those of others."""
        kinds = self._column()
        kinds[indices] = kinds[sources]

    def set_anchors(self, anchors: Int64s, gaps_ns: Int64s) -> None:
        """Note for all requests the response that their client had seen last (-1: none), and how long ago."""
        self._anchors = array("i", anchors.astype(np.int32).tobytes())
        self._gaps = array("q", gaps_ns.tobytes())

    def _number(self, kind: ItemKind) -> int:
        number = self._kinds.number(kind)
        if number == len(self._refusal_of_kind):
            self._refusal_of_kind.append(self._refused.number(kind.refusal))
        return number

    def _column(self) -> Int32s:
        return np.frombuffer(self._kind_of, np.int32)

    def refuse(self, index: int, refusal: Refusal) -> None:
        """Note why a request is not sent."""
        kind = self._kinds.values[self._kind_of[index]]
        self._kind_of[index] = self._number(kind._replace(refusal=refusal))

    def column(self, name: str, first: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return a column of the requests (see `column_of`)."""
        return column_of(self._requests, name, first, stop)[: max(len(self) - first, 0)]

    def columns(self, names: Sequence[str], first: int, stop: int) -> list[NDArray[Any]]:
        """Return several columns of the requests (see `column_of`)."""
        return columns_of(self._requests, names, first, min(stop, len(self)))

    def refusals_of(self, requests: NDArray[Any]) -> Int32s:
        """Return a number for the refusal of each of some requests, the same for equal ones."""
        numbers: Int32s = np.array(self._refusal_of_kind, np.int32)[self._column()[requests]]
        return numbers

    @property
    def refused(self) -> Sequence[Refusal | None]:
        """All refusals, by their numbers."""
        return self._refused.values

    def sent(self, first: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Return which requests are not refused."""
        return self._allowed()[self._column()[first:stop]]

    def sent_of(self, requests: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of some requests are not refused."""
        sent: NDArray[np.bool_] = self._allowed()[self._column()[requests]]
        return sent

    def _allowed(self) -> NDArray[np.bool_]:
        kinds = self._kinds.values
        if len(self._sent_kinds) < len(kinds):
            self._sent_kinds = np.array([kind.refusal is None for kind in kinds], bool)
        return self._sent_kinds

    def transactional_ids(self) -> set[str]:
        """Return all transactional ids."""
        return {kind.transaction for kind in self._kinds.values if kind.transaction}

    def __len__(self) -> int:
        return len(self._kind_of)

    @overload
    def __getitem__(self, index: int) -> ReplayItem: ...

    @overload
    def __getitem__(self, index: slice) -> Chosen[ReplayItem]: ...

    def __getitem__(self, index: int | slice) -> ReplayItem | Chosen[ReplayItem]:
        if isinstance(index, slice):
            return Chosen(self, array("q", range(*index.indices(len(self)))))
        kind = self._kinds.values[self._kind_of[index]]
        return ReplayItem(
            self._requests[index],
            kind.client_id,
            kind.refusal,
            kind.transaction,
            *((self._anchors[index], self._gaps[index]) if self._gaps else NO_ANCHOR),
            None if kind.error == NO_RESPONSE else kind.error,
        )

    def __iter__(self) -> Iterator[ReplayItem]:
        return (self[index] for index in range(len(self)))
