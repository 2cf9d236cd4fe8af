"""Traffic between each two hosts, second by second, in each direction: the input of network signals.

In come the partial tables PATHS and STANDSTILLS, out go plain rows by (sender, receiver). Ports are added up,
and who is the client does not matter here: a path is a path for replication, too. Two processes of one host
have no path between them, so pairs with one address are left out.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kdissect.report.aggregate.network_tables import PATHS, STANDSTILLS
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.signals.waiting import located_waits
from kdissect.report.timeline.signal_tables import WAITS

Direction = tuple[str, str]
"""The host that sends data, and the one that receives it."""

SILENT_NS = 2 * 10**9
"""A shorter silence with retransmissions is a burst of losses."""


class PathStep(NamedTuple):
    """One direction in one step of time; times in ns, None where there is none.

    `trip_ns` is the shortest and `longest_ns` the longest time from data to its acknowledgment, `bare_ns` the
    shortest to one without data; `first_ns` and `last_ns` are of packets of the sender.
    """

    begin_ns: int
    first_ns: int | None
    last_ns: int | None
    segments: int
    repeated: int
    repeated_first_ns: int | None
    trip_ns: int | None
    bare_ns: int | None
    longest_ns: int | None
    largest_acked: int
    attempt_repeats: int


class Standstill(NamedTuple):
    """Data of one connection that was not acknowledged for long; `repeats` of its segments came again."""

    connection: int
    sender: str
    receiver: str
    begin_ns: int
    end_ns: int
    outcome: str
    repeats: int
    most_repeats: int
    segment_bytes: int
    idle_ns: int


class Episode(NamedTuple):
    """Event of one pair of hosts, from a time to another (None: to the end of the capture)."""

    pair: Direction
    begin_ns: int
    end_ns: int | None
    measures: dict[str, int]


PATH_COLUMNS = (
    *("client_host", "server_host", "to_server", "begin_ns", "first_ns", "last_ns", "segments", "repeated"),
    *("repeated_first_ns", "ack_min_ns", "ack_max_ns", "reply_min_ns", "reply_max_ns", "largest_acked"),
    "attempt_repeats",
)

SPAN_COLUMNS = (
    *("connection", "client_host", "server_host", "to_server", "begin_ns", "end_ns", "outcome", "packets"),
    *("most_repeats", "segment_bytes", "idle_ns"),
)


class PathSeries:
    """The steps and standstills of all paths."""

    def __init__(self, context: SignalContext) -> None:
        self._context = context

    @cached_property
    def steps(self) -> dict[Direction, list[PathStep]]:
        """Return the steps of each direction by time."""
        rows: dict[tuple[Direction, int], list[dict[str, Any]]] = defaultdict(list)
        for row in self._context.rows(PATHS, *PATH_COLUMNS):
            direction = _direction(row)
            if direction is not None:
                rows[direction, row["begin_ns"]].append(row)
        series: dict[Direction, list[PathStep]] = defaultdict(list)
        for (direction, begin), same in sorted(rows.items()):
            series[direction].append(_step(begin, same))
        return series

    @cached_property
    def standstills(self) -> list[Standstill]:
        """Return the times at which data was not acknowledged, by time."""
        columns = self._context.table(STANDSTILLS)
        rows = columns.filter(columns.equals("kind", "unacknowledged")).dicts(*SPAN_COLUMNS)
        found = [
            Standstill(
                row["connection"], *direction, row["begin_ns"], row["end_ns"], row["outcome"],
                row["packets"], row["most_repeats"], row["segment_bytes"], row["idle_ns"],
            )
            for row in rows
            if (direction := _direction(row)) is not None
        ]  # fmt: skip
        return sorted(found, key=lambda one: (one.begin_ns, one.connection))

    @cached_property
    def _ends(self) -> tuple[list[str | None], list[str | None]]:
        columns = self._context.facts.columns
        return columns.values("client_host"), columns.values("server_host")

    def heard(self, pair: Direction) -> list[tuple[int, int]]:
        """Return when packets of either of two hosts were seen: first and last time of each step, by time."""
        times: dict[int, list[int]] = defaultdict(list)
        for direction in (pair, pair[::-1]):
            for one in self.steps.get(direction, ()):
                if one.first_ns is not None and one.last_ns is not None:
                    times[one.begin_ns] += [one.first_ns, one.last_ns]
        return [(min(times[begin]), max(times[begin])) for begin in sorted(times)]

    def connections(self, pairs: Iterable[Direction]) -> np.ndarray:
        """Return the rows of connections between some hosts, in either direction, on which both talk."""
        wanted = {frozenset(pair) for pair in pairs}
        chosen = [
            row
            for row, ends in enumerate(zip(*self._ends, strict=True))
            if frozenset(ends) in wanted and self._context.connections.talks[row]
        ]
        return np.array(chosen, np.int64)

    def are_clients(self, connections: np.ndarray, host: str) -> bool:
        """Return whether a host is the client of all these connections."""
        clients, _ = self._ends
        return all(clients[row] == host for row in connections.tolist())

    def waits(self, connections: np.ndarray, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """Return how many requests of connections waited in a span of time, and how long together."""
        waits = self._context.table(WAITS)
        rows = self._context.facts.rows(waits)
        begin, ends = waits.ints("first_begin_ns"), waits.ints("last_end_ns")
        ends = np.where(waits.present("last_end_ns"), ends, end_ns)
        chosen = np.isin(rows, connections) & self._context.shared(located_waits)
        chosen &= (begin <= end_ns) & (ends >= begin_ns)
        requests = waits.ints("exchanges")[chosen]
        waited = np.where(
            waits.present("last_end_ns")[chosen],
            waits.ints("wait_ns")[chosen],
            np.maximum(end_ns - begin[chosen], 0) * requests,
        )
        return int(requests.sum()), int(waited.sum())

    def answered_after(self, connections: np.ndarray, begin_ns: int, end_ns: int) -> bool:
        """Return whether a request sent before a span was answered after it, on one of some connections.

        Unless something was sent again, it arrived: the server took that long.
        """
        waits = self._context.table(WAITS)
        rows = self._context.facts.rows(waits)
        through = self._context.shared(located_waits) & (waits.ints("first_begin_ns") <= begin_ns)
        through &= waits.ints("last_end_ns") >= end_ns
        return bool((through & waits.present("last_end_ns") & np.isin(rows, connections)).any())


def _direction(row: dict[str, Any]) -> Direction | None:
    client, server = row["client_host"], row["server_host"]
    if client is None or server is None or client == server or row["begin_ns"] is None:
        return None
    return (client, server) if row["to_server"] else (server, client)


def _step(begin_ns: int, rows: list[dict[str, Any]]) -> PathStep:
    def known(*names: str) -> list[int]:
        return [row[name] for row in rows for name in names if row[name] is not None]

    return PathStep(
        begin_ns=begin_ns,
        first_ns=min(known("first_ns"), default=None),
        last_ns=max(known("last_ns"), default=None),
        segments=sum(row["segments"] for row in rows),
        repeated=sum(row["repeated"] for row in rows),
        repeated_first_ns=min(known("repeated_first_ns"), default=None),
        trip_ns=min(known("ack_min_ns", "reply_min_ns"), default=None),
        bare_ns=min(known("ack_min_ns"), default=None),
        longest_ns=max(known("ack_max_ns", "reply_max_ns"), default=None),
        largest_acked=max(known("largest_acked"), default=0),
        attempt_repeats=sum(row["attempt_repeats"] for row in rows),
    )


def common_host(pairs: Iterable[Direction]) -> str | None:
    """Return the host that all of two or more pairs have in common, None if there is none."""
    distinct = {frozenset(pair) for pair in pairs}
    if len(distinct) < 2:
        return None
    shared = frozenset.intersection(*distinct)
    return next(iter(shared)) if len(shared) == 1 else None


def gaps_between(heard: list[tuple[int, int]], end_ns: int) -> list[tuple[int, int]]:
    """Return the times of `SILENT_NS` or more between what was heard; none if nothing was."""
    steps = pairwise([*heard, (end_ns, end_ns)])
    return [(last, first) for (_, last), (first, _) in steps if first - last >= SILENT_NS]
