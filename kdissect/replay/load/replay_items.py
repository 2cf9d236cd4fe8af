"""The requests of a replay on their way to their disposition, as columns beside those of the capture.

A `ReplayItem` is made when somebody wants one, so what it says is changed here and not in the object.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.request_table import Chosen, Int32s, Interned, Request, column_of
from kdissect.streams.flow_state import Int64s

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


def request_column(items: Sequence[ReplayItem], name: str) -> NDArray[Any]:
    """Return a column of the requests of any items (see `column_of`)."""
    if isinstance(items, ReplayItems):
        return items.column(name)
    if isinstance(items, Chosen) and isinstance(items.every, ReplayItems):
        column: NDArray[Any] = items.every.column(name)[items.numbers]
        return column
    return column_of([item.request for item in items], name)


def sent_mask(items: Sequence[ReplayItem]) -> NDArray[np.bool_]:
    """Return which of any items are not refused."""
    if isinstance(items, ReplayItems):
        return items.sent()
    if isinstance(items, Chosen) and isinstance(items.every, ReplayItems):
        mask: NDArray[np.bool_] = items.every.sent()[items.numbers]
        return mask
    return np.array([item.refusal is None for item in items], bool)


def refused_requests(items: Sequence[ReplayItem]) -> Iterator[tuple[Int64s, Refusal]]:
    """Yield the indices of the requests of any items that are refused, those of one reason together."""
    every = items.every if isinstance(items, Chosen) else items
    if isinstance(every, ReplayItems):
        numbers, values = every.refusals(), every.refused
        indices = request_column(items, "index")
        if isinstance(items, Chosen):
            numbers = numbers[items.numbers]
        for number in np.unique(numbers).tolist():
            refusal = values[number]
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
        self._clients, self._client_ids = array("i"), Interned[str | None]()
        self._refusals, self._refused = array("i"), Interned[Refusal | None]()
        self._transactions, self._transactional_ids = array("i"), Interned[str | None]()
        self._errors = array("i")
        self._anchors, self._gaps = array("i"), array("q")  # both are empty if nobody asks for them

    def make_room(self) -> None:
        """Have an item for each request, about which nothing is decided."""
        count = len(self._requests)
        for column in self._columns():
            column[:] = array(column.typecode, bytes(column.itemsize * count))

    def put(self, item: ReplayItem) -> None:
        """Set the item of a request."""
        index = item.request.index
        self._clients[index] = self._client_ids.number(item.client_id)
        self._refusals[index] = self._refused.number(item.refusal)
        self._transactions[index] = self._transactional_ids.number(item.transaction)
        self._errors[index] = NO_RESPONSE if item.error is None else item.error

    def copy(self, indices: Int64s, sources: Int64s | Int32s) -> None:
        """Set the items of some requests to those of others."""
        for column in self._columns():
            values = np.frombuffer(column, column.typecode)
            values[indices] = values[sources]

    def set_anchors(self, anchors: Int64s, gaps_ns: Int64s) -> None:
        """Note for all requests the response that their client had seen last (-1: none), and how long ago."""
        self._anchors = array("i", anchors.astype(np.int32).tobytes())
        self._gaps = array("q", gaps_ns.tobytes())

    def _columns(self) -> tuple["array[int]", ...]:
        return self._clients, self._refusals, self._transactions, self._errors

    def refuse(self, index: int, refusal: Refusal) -> None:
        """Note why a request is not sent."""
        self._refusals[index] = self._refused.number(refusal)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of the requests (see `column_of`)."""
        return column_of(self._requests, name)[: len(self)]

    def refusals(self) -> Int32s:
        """Return a number for the refusal of each request, the same for equal ones."""
        return np.array(self._refusals, np.int32)

    @property
    def refused(self) -> Sequence[Refusal | None]:
        """All refusals, by their numbers."""
        return self._refused.values

    def sent(self) -> NDArray[np.bool_]:
        """Return which requests are not refused."""
        allowed = np.array([refusal is None for refusal in self._refused.values], bool)
        return allowed[self.refusals()] if len(self) else np.zeros(0, bool)

    def transactional_ids(self) -> set[str]:
        """Return all transactional ids."""
        return {each for each in self._transactional_ids.values if each}

    def __len__(self) -> int:
        return len(self._clients)

    @overload
    def __getitem__(self, index: int) -> ReplayItem: ...

    @overload
    def __getitem__(self, index: slice) -> Chosen[ReplayItem]: ...

    def __getitem__(self, index: int | slice) -> ReplayItem | Chosen[ReplayItem]:
        if isinstance(index, slice):
            return Chosen(self, array("q", range(*index.indices(len(self)))))
        error = self._errors[index]
        return ReplayItem(
            self._requests[index],
            self._client_ids.values[self._clients[index]],
            self._refused.values[self._refusals[index]],
            self._transactional_ids.values[self._transactions[index]],
            *((self._anchors[index], self._gaps[index]) if self._gaps else NO_ANCHOR),
            None if error == NO_RESPONSE else error,
        )

    def __iter__(self) -> Iterator[ReplayItem]:
        return (self[index] for index in range(len(self)))
