"""The first reading: which exchanges are selected, and which packets that means.

In come an `ExchangeReader` and a filter. Out goes a `PacketSelection`: for each 4-tuple with a selected
exchange the connections that used it, one after the other, with what is wanted of each, and the comments on
packets, sorted by packet on disk. Three scopes decide what is wanted of a connection:

- CONNECTIONS: all its packets.
- AROUND: its packets near a selected exchange, or near the time that was asked for.
- EXCHANGES: the packets that carry payload of a direction while a selected message of it was on its way.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools
from kdissect.exchanges.external_sort import ExternalSort
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.reader import ExchangeReader
from kdissect.jit.rows import Records
from kdissect.slice.chosen_exchanges import ChosenExchange, CommentNames, chooser, chosen_exchanges
from kdissect.streams.endpoints import Endpoints
from kdissect.streams.flow_state import ORPHAN_RESPONSE

COMMENTS_ON_A_PACKET = 20


class SliceScope(Enum):
    """How much of the connections of selected exchanges is wanted."""

    CONNECTIONS = auto()
    AROUND = auto()
    EXCHANGES = auto()


class ExchangeNumber(NamedTuple):
    """An exchange as tables name it: the number of its connection, and its ordinal there."""

    connection: int
    ordinal: int


class ConnectionSpan(NamedTuple):
    """Connections by number, and a time (ns) in which they are of interest, even without an exchange."""

    connections: frozenset[int]
    begin_ns: int
    end_ns: int

    def header_mask(self, exchanges: Records, reader: ExchangeReader) -> Bools:
        """Return which rows of `flow_state.ExchangeRow` are on these connections and under way then."""
        request, response = exchanges["request"], exchanges["response"]
        orphan, answered = exchanges["status"] == ORPHAN_RESPONSE, response["start"] > 0
        began = np.where(orphan, response["first_byte_ns"], request["first_byte_ns"])
        answer_ns = np.maximum(response["first_byte_ns"], response["last_byte_ns"])
        ended = np.where(answered, answer_ns, self.end_ns)
        rows, index = np.unique(exchanges["connection"], return_inverse=True)
        known = np.array([reader.identity(row) in self.connections for row in rows.tolist()], bool)
        mask: Bools = known[index] & (began <= self.end_ns) & (ended >= self.begin_ns)
        return mask


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """Request of the user."""

    filter: ExchangeFilter
    exchanges: frozenset[ExchangeNumber] = frozenset()  # empty: all that the filter selects
    scope: SliceScope = SliceScope.CONNECTIONS
    around_ns: int = 0  # before and after a selected exchange, for SliceScope.AROUND
    span: ConnectionSpan | None = None  # only these connections, and they even without exchanges

    def header_mask(self, exchanges: Records, reader: ExchangeReader) -> Bools:
        """Return which rows of `flow_state.ExchangeRow` are selected as far as headers tell."""
        wanted = self.filter.header_mask(exchanges, reader)
        if self.span:
            wanted &= self.span.header_mask(exchanges, reader)
        if self.exchanges:
            wanted &= np.isin(exchanges["ordinal"], [one.ordinal for one in self.exchanges])
            for index in wanted.nonzero()[0]:
                row = exchanges[index]
                number = ExchangeNumber(reader.identity(int(row["connection"])), int(row["ordinal"]))
                wanted[index] = number in self.exchanges
        return wanted


class Windows:
    """Closed intervals of time (ns) of one direction, sorted and disjoint."""

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        self._begins, self._ends = array("q"), array("q")

    def add(self, first: int, last: int) -> None:
        """Add an interval, and join it with those that it meets."""
        start, stop = bisect_left(self._ends, first), bisect_right(self._begins, last)
        if start < stop:
            first, last = min(first, self._begins[start]), max(last, self._ends[stop - 1])
        self._begins[start:stop], self._ends[start:stop] = array("q", [first]), array("q", [last])

    def has(self, time_ns: int) -> bool:
        """Return whether a time is in one of them."""
        index = bisect_left(self._ends, time_ns)
        return index < len(self._ends) and self._begins[index] <= time_ns


@dataclass(slots=True)
class Wanted:
    """Wanted parts of one connection: everything, or windows of each direction (A to B, B to A)."""

    everything: bool = False
    needs_payload: bool = False
    windows: tuple[Windows, Windows] = field(default_factory=lambda: (Windows(), Windows()))

    def has(self, time_ns: int, side: int, has_payload: bool) -> bool:
        """Return whether a packet is wanted; `side` is 0 for one from A, 1 for one from B."""
        if self.everything:
            return True
        return (has_payload or not self.needs_payload) and self.windows[side].has(time_ns)


class Occupant(NamedTuple):
    """A connection on a 4-tuple, from the SYN at `first_ns` on until the next one."""

    first_ns: int
    wanted: Wanted | None
    connection: int = 0  # its row


@dataclass(slots=True)
class PacketSelection:
    """Selected packets: see the module's text."""

    occupants: dict[Endpoints, list[Occupant]]
    comments: "PacketComments"
    exchanges: int
    connections: int


class PacketComments:
    """Comments on packets (`split << PACKET_BITS | number`), which are asked for in order of packets."""

    def __init__(self) -> None:
        self._order = ExternalSort()
        self._count = 0

    def add(self, packet: int, text: str) -> None:
        """Add a comment."""
        self._count += 1
        self._order.add((packet, self._count, 0, 0, 0), text.encode("utf-8", "backslashreplace"))

    def of(self, packet: int) -> list[str]:
        """Return the comments on a packet; those on earlier packets are dropped.

        Beyond COMMENTS_ON_A_PACKET, the last one says how many there are more.
        """
        for _ in self._order.pop_before(packet):
            pass
        shown: list[str] = []
        more = 0
        for text in self._order.pop_before(packet + 1):
            if len(shown) < COMMENTS_ON_A_PACKET:
                shown.append(text.decode())
            else:
                more += 1
        return [*shown, f"{more:,} more messages begin in this packet"] if more else shown

    def close(self) -> None:
        """Remove what is on disk."""
        self._order.close()


def select(
    reader: ExchangeReader,
    request: SliceRequest,
    topic_names: Mapping[bytes, str],
    comments: PacketComments,
    names: CommentNames | None = None,
) -> PacketSelection:
    """Return what a request selects, reading the captures to their end.

    Comments use `names`, if they are given, instead of those of the capture.
    """
    choose = chooser(request.filter, topic_names, names or CommentNames(lambda one: one, topic_names))
    wanted: defaultdict[int, Wanted] = defaultdict(Wanted)
    count = 0
    for chosen in chosen_exchanges(reader, request.header_mask, choose):
        count += 1
        _widen(wanted[chosen.connection], chosen, request, reader)
        for frame in (chosen.request, chosen.response):
            if frame is not None and frame.packet >= 0 and frame.comment:
                comments.add(frame.packet, frame.comment)
    if request.span:
        _add_span(wanted, request.span, request, reader)
    return PacketSelection(_occupants(reader, wanted), comments, count, len(wanted))


def _add_span(
    wanted: defaultdict[int, Wanted], span: ConnectionSpan, request: SliceRequest, reader: ExchangeReader
) -> None:
    """Add the connections of a span as wanted, those without an exchange too, unless exchanges are wanted."""
    if request.scope is SliceScope.EXCHANGES or request.exchanges or not request.filter.selects_everything:
        return
    for row, _ in enumerate(reader.beginnings()):
        if reader.identity(row) not in span.connections:
            continue
        one = wanted[row]
        one.everything = request.scope is SliceScope.CONNECTIONS
        for windows in one.windows:
            windows.add(span.begin_ns - request.around_ns, span.end_ns + request.around_ns)


def _widen(wanted: Wanted, chosen: ChosenExchange, request: SliceRequest, reader: ExchangeReader) -> None:
    """Add to what is wanted of a connection what an exchange on it needs."""
    if request.scope is SliceScope.CONNECTIONS:
        wanted.everything = True
        return
    if request.scope is SliceScope.AROUND:
        frames = [frame for frame in (chosen.request, chosen.response) if frame is not None]
        first = min(frame.first_ns for frame in frames) - request.around_ns
        last = max(frame.last_ns for frame in frames) + request.around_ns
        for windows in wanted.windows:
            windows.add(first, last)
        return
    wanted.needs_payload = True
    client_side = int(reader.client_is_b(chosen.connection))
    for side, frame in ((client_side, chosen.request), (1 - client_side, chosen.response)):
        if frame is not None:
            wanted.windows[side].add(frame.first_ns, frame.last_ns)


def _occupants(reader: ExchangeReader, wanted: Mapping[int, Wanted]) -> dict[Endpoints, list[Occupant]]:
    """Return all connections on the 4-tuples of wanted ones, in the order in which they began."""
    occupants: dict[Endpoints, list[Occupant]] = {reader.endpoints(row): [] for row in wanted}
    for row, (ends, first_ns) in enumerate(reader.beginnings()):
        if ends in occupants:
            occupants[ends].append(Occupant(first_ns, wanted.get(row), row))
    return occupants
