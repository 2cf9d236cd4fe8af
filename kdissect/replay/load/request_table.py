"""All requests of a capture as rows of bytes on disk: an object is made of a row when somebody wants one.

A row takes 80 bytes, a `Request` with its numbers many times as many. So what keeps requests keeps their
places here, in the order of the capture, and asks for the object when the request is due. Only the rows that
were read last are in memory (`RowFile`), so it does not grow with the capture.
"""

import struct
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int32s, Int64s
from kdissect.replay.load.row_file import RowFile
from kdissect.replay.load.spool import SpoolSlot

NONE = -1  # in a row, for a value that is absent
COLUMNS = (
    ("connection", "<i8"),
    ("ordinal", "<i4"),
    ("server", "<i4"),  # a number of `Interned`, as of the columns with `_text`
    ("key", "<i4"),
    ("version", "<i4"),
    ("status", "<i4"),
    ("first_ns", "<i8"),
    ("last_ns", "<i8"),
    ("answered_ns", "<i8"),
    ("in_flight", "<i4"),
    ("complete", "?"),
    ("frame_at", "<i8"),
    ("frame_size", "<i4"),
    ("response_at", "<i8"),
    ("response_size", "<i4"),
    ("response_complete", "?"),
)
DTYPE = np.dtype(list(COLUMNS))
NAMES = frozenset(name for name, _ in COLUMNS)
ROWS_AT_ONCE = 1 << 16
STRUCT_CODES = {"<i8": "q", "<i4": "i", "?": "?"}
ROW = struct.Struct("<" + "".join(STRUCT_CODES[kind] for _, kind in COLUMNS))

V = TypeVar("V", bound=Hashable)


@dataclass(slots=True)
class Request:
    """One captured request and what became of it."""

    index: int  # in the order of the capture
    connection: int  # the public number
    ordinal: int
    server: str
    key: int
    version: int | None  # None: Kafka 0.7
    status: str  # answered, unanswered ... as in the table of exchanges
    first_ns: int
    last_ns: int | None
    answered_ns: int | None
    in_flight: int
    complete: bool  # no byte of the request is missing
    frame: SpoolSlot
    response: SpoolSlot | None
    response_complete: bool
    excluded_by: str = ""  # the option that excludes it, such as --topic

    def excluded(self, option: str) -> "Request":
        """Return the same request, marked with the option that excludes it ("": none)."""
        return replace(self, excluded_by=option) if option else self

    @property
    def service_ns(self) -> int | None:
        """The time from the request's last byte to the response's first; None if that is not known."""
        if self.last_ns is None or self.answered_ns is None or self.answered_ns < self.last_ns:
            return None
        return self.answered_ns - self.last_ns


class Interned(Generic[V]):
    """Values that come again and again, each kept once, by number."""

    def __init__(self) -> None:
        self.values: list[V] = []
        self._numbers: dict[V, int] = {}

    def number(self, value: V) -> int:
        """Return the number of a value."""
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.values)
            self.values.append(value)
        return known


class RequestTable(Sequence[Request]):
    """Requests in the order of the capture, by their index."""

    def __init__(self) -> None:
        self._rows = RowFile(ROW.size)
        self._texts, self._options = Interned[str](), Interned[str]()
        self._options.number("")
        self._excluded = bytearray()  # the number of the option that excludes each

    def append(self, request: Request) -> None:
        """Add the next request."""
        number, (at, size), response = self._texts.number, request.frame, request.response
        row = ROW.pack(
            request.connection,
            request.ordinal,
            number(request.server),
            request.key,
            NONE if request.version is None else request.version,
            number(request.status),
            request.first_ns,
            NONE if request.last_ns is None else request.last_ns,
            NONE if request.answered_ns is None else request.answered_ns,
            request.in_flight,
            request.complete,
            at,
            size,
            *((NONE, 0) if response is None else response),
            request.response_complete,
        )
        self._rows.append(row)
        self._excluded.append(self._options.number(request.excluded_by))

    def extend(
        self, columns: Mapping[str, NDArray[Any]], servers: Sequence[str], statuses: Sequence[str]
    ) -> None:
        """Add requests by their columns, as in `COLUMNS`. No option excludes them.

        `servers` and `statuses` are what the numbers in their columns stand for.
        """
        rows = np.zeros(len(columns["connection"]), DTYPE)
        for name, values in columns.items():
            rows[name] = values
        for name, texts in (("server", servers), ("status", statuses)):
            numbers = np.array([self._texts.number(text) for text in texts], np.int32)
            rows[name] = numbers[columns[name]] if len(rows) else 0
        self._rows.append(rows.tobytes())
        self._excluded += bytes(len(rows))

    def exclude(self, requests: Int64s, option: str) -> None:
        """Mark requests with the option that excludes them."""
        np.frombuffer(self._excluded, np.uint8)[requests] = self._options.number(option)

    def column(self, name: str, first: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return a copy of a column, as in `COLUMNS`; the indices, or the numbers of options.

        It has all requests, or those from `first` on and before `stop`.
        """
        if name == "index":
            return np.arange(first, len(self) if stop is None else min(stop, len(self)))
        if name == "excluded_by":
            return np.frombuffer(bytes(self._excluded[first:stop]), np.uint8)
        return self._rows.column(DTYPE[name], lambda block: np.frombuffer(block, DTYPE)[name], first, stop)

    def columns(self, names: Sequence[str], first: int, stop: int) -> list[NDArray[Any]]:
        """Return several columns of some requests, as `column` does, by reading their rows once."""
        rows = np.frombuffer(b"".join(self._rows.blocks(first, max(first, stop))), DTYPE)
        return [rows[name] if name in NAMES else self.column(name, first, stop) for name in names]

    def included(self) -> NDArray[np.bool_]:
        """Return which requests no option excludes."""
        included: NDArray[np.bool_] = np.frombuffer(self._excluded, np.uint8) == 0
        return included

    def selected_keys(self) -> set[int]:
        """Return the API keys of the requests that no option excludes."""
        included, found = self.included(), set[int]()
        for begin in range(0, len(self), ROWS_AT_ONCE):
            end = begin + ROWS_AT_ONCE
            found.update(np.unique(self.column("key", begin, end)[included[begin:end]]).tolist())
        return found

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Request: ...

    @overload
    def __getitem__(self, index: slice) -> list[Request]: ...

    def __getitem__(self, index: int | slice) -> Request | list[Request]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            if not -len(self) <= index < 0:
                raise IndexError(index)
            index += len(self)
        return self._request(index)

    def __iter__(self) -> Iterator[Request]:
        index = 0
        while index < len(self):
            yield self._request(index)
            index += 1

    def _request(self, index: int) -> Request:
        (
            connection,
            ordinal,
            server,
            key,
            version,
            status,
            first_ns,
            last_ns,
            answered_ns,
            in_flight,
            complete,
            at,
            size,
            response_at,
            response_size,
            response_complete,
        ) = ROW.unpack_from(*self._rows.place(index))
        texts = self._texts.values
        return Request(
            index,
            connection,
            ordinal,
            texts[server],
            key,
            None if version == NONE else version,
            texts[status],
            first_ns,
            None if last_ns == NONE else last_ns,
            None if answered_ns == NONE else answered_ns,
            in_flight,
            complete,
            SpoolSlot(at, size),
            None if response_at == NONE else SpoolSlot(response_at, response_size),
            response_complete,
            self._options.values[self._excluded[index]],
        )


def column_of(
    requests: Sequence[Request], name: str, first: int = 0, stop: int | None = None
) -> NDArray[Any]:
    """Return one of the columns in `READERS` of any requests, or of those from `first` on and before `stop`.

    A table has it without making objects.
    """
    if isinstance(requests, RequestTable):
        return requests.column(name, first, stop)
    return np.array([READERS[name](request) for request in requests[first:stop]], np.int64)


def columns_of(
    requests: Sequence[Request], names: Sequence[str], first: int, stop: int
) -> list[NDArray[Any]]:
    """Return several columns of any requests (see `column_of`)."""
    if isinstance(requests, RequestTable):
        return requests.columns(names, first, stop)
    return [column_of(requests, name, first, stop) for name in names]


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], Int32s]:
    """Return the distinct values of a long column, and for each row the number of its value.

    As `np.unique`, which sorts all rows and needs many times their memory.
    """
    parts = [values[begin : begin + ROWS_AT_ONCE] for begin in range(0, len(values), ROWS_AT_ONCE)]
    distinct = np.unique(np.concatenate([values[:0], *map(np.unique, parts)]))
    numbers = np.empty(len(values), np.int32)
    for number, part in enumerate(parts):
        begin = number * ROWS_AT_ONCE
        numbers[begin : begin + len(part)] = np.searchsorted(distinct, part)
    return distinct, numbers


READERS: Mapping[str, Callable[[Request], int]] = {
    "index": lambda request: request.index,
    "connection": lambda request: request.connection,
    "key": lambda request: request.key,
    "first_ns": lambda request: request.first_ns,
    "answered_ns": lambda request: NONE if request.answered_ns is None else request.answered_ns,
    "frame_at": lambda request: request.frame.at,
    "frame_size": lambda request: request.frame.size,
    "response_at": lambda request: NONE if request.response is None else request.response.at,
    "response_size": lambda request: 0 if request.response is None else request.response.size,
    "response_complete": lambda request: request.response_complete,
    "in_flight": lambda request: request.in_flight,
}


class Chosen(Sequence[V]):
    """Some of a sequence, by their places in it."""

    def __init__(self, every: Sequence[V], places: "array[int]") -> None:
        self.every, self.places = every, places

    @property
    def numbers(self) -> NDArray[Any]:
        """The places as a column."""
        return np.frombuffer(self.places, self.places.typecode)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> V: ...

    @overload
    def __getitem__(self, index: slice) -> "Chosen[V]": ...

    def __getitem__(self, index: int | slice) -> "V | Chosen[V]":
        if isinstance(index, slice):
            return Chosen(self.every, self.places[index])
        return self.every[self.places[index]]

    def __iter__(self) -> Iterator[V]:
        return (self.every[place] for place in self.places)
