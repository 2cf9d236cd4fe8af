"""Observations and consumer lags from the tables of a partial, with names, addresses and locations."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import api_name
from kdissect.report.aggregate.group_sums import highest_values, sum_by_group
from kdissect.report.aggregate.grouping import (
    Codes,
    RowGroups,
    TableColumns,
    encode,
    encode_range,
    group_rows,
    name_distinct,
)
from kdissect.report.aggregate.partial_tables import FINDING_INPUTS, LAGS
from kdissect.report.model.findings import Location
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import ConnectionFacts, capture_locations
from kdissect.report.query.topic_names import Address, TopicNames
from kdissect.report.wording import client_text
from kdissect.tables.coded_text import CodedText

MAX_OBSERVATIONS = 100_000
"""Groups of exchanges that findings look at: those with the most exchanges, the others count as omitted."""

FEW = 4_096
"""Kinds with no more observations than this are made together, each of the others when a rule asks for it."""


class Observation(NamedTuple):
    """Exchanges of one kind, client, API, error, group and partition.

    `closed_ns` is the end of a connection that was captured in full, None for others. `amount` and `most` are
    the sum and maximum of throttle times, or of latencies behind a long poll, in milliseconds. For errors
    `amount` is the number of requests, each at its first partition.
    """

    kind: str
    api_key: int | None
    api_version: int | None
    code: int | None
    group_id: str | None
    transactional_id: str | None
    replica_id: int | None
    generation: int | None
    second: int | None
    exchanges: int
    amount: int
    most: int
    first_ns: int
    last_ns: int
    closed_ns: int | None
    software: str | None
    location: Location

    @property
    def client(self) -> str:
        """Return the client id and its host."""
        return client_text(self.location.client_id, self.location.client_host)

    @property
    def partition(self) -> str | None:
        """Return topic and partition as topic-7, or the topic alone; None if there is no topic."""
        location = self.location
        return location.topic if location.partition is None else f"{location.topic}-{location.partition}"

    @property
    def api(self) -> str:
        """Return the name of the API."""
        return "?" if self.api_key is None else api_name(self.api_key)

    @property
    def error(self) -> str:
        """Return the name of the error."""
        return error_name(self.code or 0)


class ConsumerLag(NamedTuple):
    """How many records a client was behind in a partition: at its first and last fetch, and at most."""

    client: str
    topic: str
    before: int
    after: int
    most: int
    first_ns: int
    last_ns: int
    location: Location


class Rest(NamedTuple):
    """Sum of what a list leaves out: how many rows, their exchanges, and when those began and ended."""

    rows: int = 0
    exchanges: int = 0
    first_ns: int | None = None
    last_ns: int | None = None


class ClientSum(NamedTuple):
    """Observations of one kind and client: their exchanges, the first, the last time, and the brokers."""

    client: str
    exchanges: int
    first: Observation
    last_ns: int
    servers: list[Address]


class Clients(NamedTuple):
    """The clients with the most exchanges of a kind, and the sum of further clients."""

    first: list[ClientSum]
    rest: Rest


class ClientTimes(NamedTuple):
    """Observations of one kind and client in the order of time, as columns, and the first of them.

    The columns are those of Observation, one number for each observation.
    """

    client: str
    first_ns: Int64s
    last_ns: Int64s
    second: Int64s
    exchanges: Int64s
    first: Observation


class Observations:
    """The observations of a capture, from some rows of FINDING_INPUTS in the order of time.

    A capture may have 100,000 of a kind, and few rules look at each of them. So those of a kind are made when
    a rule asks for them, and `by_client` and `client_times` make few.
    """

    def __init__(
        self, columns: TableColumns, rows: Int64s, facts: ConnectionFacts, topics: TopicNames
    ) -> None:
        self._columns, self._rows, self._facts, self._topics = columns, rows, facts, topics
        kinds = columns.text("kind")
        self._kinds, self._kind = kinds.texts.to_pylist(), kinds.numbers[rows]
        self._made: dict[str, list[Observation]] = {}

    def of_kind(self, kind: str) -> list[Observation]:
        """Return the observations of a kind in the order of time."""
        if kind not in self._large_kinds:
            return self._few.get(kind, [])
        if kind not in self._made:
            self._made[kind] = self._make(self._columns.take(self._rows_of(kind)))
        return self._made[kind]

    def by_client(self, kind: str, most: int) -> Clients:
        """Return the sums of `most` clients, most exchanges first.

        Of 100,000 observations only the first of each client is made, which takes 0.04 s in place of 0.6.
        """
        own = self._rows_of(kind)
        if not len(own):
            return Clients([], Rest())
        columns = self._columns.take(own)
        clients, groups = self._clients(columns)
        exchanges = sum_by_group(groups, columns.ints("exchanges"))
        last_ns = highest_values(groups, columns.ints("last_ns"))
        names = clients.take(groups.first)
        order = np.lexsort((names.ranks(), -exchanges))[:most]
        is_named = np.zeros(groups.count, bool)
        is_named[order] = True
        named = is_named[groups.of]
        first = self._first(columns, groups, named)
        servers = self._servers(columns, groups, np.flatnonzero(named))
        sums = [
            ClientSum(name, int(exchanges[at]), first[name], int(last_ns[at]), servers[at])
            for at, name in zip(order.tolist(), names.take(order).tolist(), strict=True)
            if name is not None
        ]
        return Clients(sums, _rest(columns.filter(~named), groups.count - len(sums)))

    def client_times(self, kind: str, least: int) -> list[ClientTimes]:
        """Return the observations of the clients with at least so many exchanges of a kind, by name.

        Columns of 100,000 observations take 0.04 s. Making the observations takes 0.56 s.
        """
        columns = self._columns.take(self._rows_of(kind))
        clients, groups = self._clients(columns)
        is_busy = sum_by_group(groups, columns.ints("exchanges")) >= least
        first = self._first(columns, groups, is_busy[groups.of])
        names = clients.take(groups.first)
        busy = np.flatnonzero(is_busy)[np.argsort(names.ranks()[is_busy])]
        order = np.argsort(groups.of, kind="stable")
        rows = np.split(order, np.cumsum(np.bincount(groups.of, minlength=groups.count))[:-1])
        first_ns, last_ns, second, exchanges = map(
            columns.ints, ("first_ns", "last_ns", "second", "exchanges")
        )
        return [
            ClientTimes(name, first_ns[own], last_ns[own], second[own], exchanges[own], first[name])
            for own, name in zip((rows[at] for at in busy.tolist()), names.take(busy).tolist(), strict=True)
            if name is not None
        ]

    def _clients(self, columns: TableColumns) -> tuple[CodedText, RowGroups]:
        """Return the client of each row, as `Observation.client` has it, and the groups of equal ones."""
        clients = name_distinct(client_text, *_client_columns(columns, self._facts))
        return clients, group_rows(encode(clients))

    def _first(self, columns: TableColumns, groups: RowGroups, chosen: Bools) -> dict[str, Observation]:
        """Return the first observation of each client that has chosen rows.

        Rows of one moment have an order when they are made.
        """
        times = columns.ints("first_ns")
        rows = columns.filter(chosen & (times == times[groups.first][groups.of]))
        first: dict[str, Observation] = {}
        for one in self._make(rows) if rows.rows else ():
            first.setdefault(one.client, one)
        return first

    def _servers(self, columns: TableColumns, groups: RowGroups, rows: Int64s) -> dict[int, list[Address]]:
        """Return the addresses of the servers of some rows, each once, by group."""
        ends = self._facts.rows(columns)[rows]
        hosts, ports = (
            self._facts.columns.column(name).take(ends) for name in ("server_host", "server_port")
        )
        first = group_rows(Codes(groups.of[rows], groups.count), encode(hosts), encode(ports)).first
        addresses = zip(hosts.take(first).tolist(), ports.take(first).tolist(), strict=True)
        servers: dict[int, list[Address]] = {}
        for group, address in zip(groups.of[rows[first]].tolist(), addresses, strict=True):
            servers.setdefault(group, []).append(address)
        return servers

    @cached_property
    def _large_kinds(self) -> frozenset[str]:
        counts = np.bincount(self._kind, minlength=len(self._kinds)).tolist()
        return frozenset(kind for kind, count in zip(self._kinds, counts, strict=True) if count > FEW)

    @cached_property
    def _few(self) -> dict[str, list[Observation]]:
        """Return the observations of the kinds that have few."""
        is_few = np.array([kind not in self._large_kinds for kind in self._kinds], bool)
        rows: Int64s = self._rows[is_few[self._kind]]
        by_kind: dict[str, list[Observation]] = {}
        for observation in self._make(self._columns.take(rows)) if len(rows) else ():
            by_kind.setdefault(observation.kind, []).append(observation)
        return by_kind

    def _rows_of(self, kind: str) -> Int64s:
        """Return the rows of a kind in the order of time."""
        number = self._kinds.index(kind) if kind in self._kinds else -1
        rows: Int64s = self._rows[self._kind == number]
        return rows

    def _make(self, columns: TableColumns) -> list[Observation]:
        facts = self._facts
        connections = facts.rows(columns)
        ends, software = (
            facts.column_at(name, connections).to_pylist()
            for name in ("last_time_ns", "client_software_name")
        )
        complete = facts.complete(connections).tolist()
        values: dict[str, Iterable[Any]] = {
            "closed_ns": (
                end if is_complete else None for end, is_complete in zip(ends, complete, strict=True)
            ),
            "software": software,
            "location": capture_locations(columns, columns.values("first_ns"), facts, self._topics),
        }
        for name in Observation._fields:
            if name not in values:
                values[name] = columns.values(name)
        observations = list(map(Observation, *(values[name] for name in Observation._fields)))
        _order_moments(observations, columns.ints("first_ns"))
        return observations


def _rest(columns: TableColumns, clients: int) -> Rest:
    if not clients:
        return Rest()
    return Rest(
        clients,
        int(columns.ints("exchanges").sum()),
        int(columns.ints("first_ns").min()),
        int(columns.ints("last_ns").max()),
    )


def find_observations(
    partial: Partial, facts: ConnectionFacts, topics: TopicNames
) -> tuple[Observations, int]:
    """Return the observations, and how many were left out."""
    columns = partial.columns(FINDING_INPUTS)
    omitted = max(columns.rows - MAX_OBSERVATIONS, 0)
    if omitted:
        most = np.lexsort((columns.ints("first_ns"), -columns.ints("exchanges")))[:MAX_OBSERVATIONS]
        columns = columns.take_few(most)
    rows = np.argsort(columns.ints("first_ns"), kind="stable")
    return Observations(columns, rows, facts, topics), omitted


def _order_moments(observations: list[Observation], first_ns: Int64s) -> None:
    """Order observations, which are in the order of time, by their text where they share a moment.

    The texts of all of them would take a fifth of the time of finding them, and few share a moment.
    """
    edges = np.flatnonzero(np.r_[True, first_ns[1:] != first_ns[:-1], True])
    for at in np.flatnonzero(np.diff(edges) > 1).tolist():
        together = slice(edges[at], edges[at + 1])
        observations[together] = sorted(observations[together], key=repr)


def find_consumer_lags(
    partial: Partial, facts: ConnectionFacts, topics: TopicNames
) -> tuple[ConsumerLag, ...]:
    """Return the lag of each client in each partition; several connections of a client count together."""
    columns = partial.columns(LAGS)
    clients = name_distinct(client_text, *_client_columns(columns, facts))
    names = name_distinct(topics.name, columns.column("topic"), columns.column("topic_id"))
    groups = group_rows(encode(clients), encode(names), encode_range(columns.ints("partition")))
    is_first = columns.equals("edge", "first")
    firsts, lasts = (_earliest(columns, groups, np.flatnonzero(edge)) for edge in (is_first, ~is_first))
    most = np.zeros(groups.count, np.int64)
    np.maximum.at(most, groups.of[is_first], columns.ints("most")[is_first])
    times = columns.ints("order_ns")
    # No location is made of the other rows: a client may have 100,000 connections.
    locations = capture_locations(columns.take(firsts), times[firsts].tolist(), facts, topics)
    lags = [
        ConsumerLag(
            client=client,
            topic=topic or "?",
            before=int(columns.ints("lag")[first]),
            after=int(columns.ints("lag")[last]),
            most=int(highest),
            first_ns=int(times[first]),
            last_ns=-int(times[last]),
            location=location,
        )
        for client, topic, first, last, highest, location in zip(
            *(texts.take(firsts).tolist() for texts in (clients, names)),
            *(firsts, lasts, most, locations),
            strict=True,
        )
    ]
    return tuple(sorted(lags, key=lambda lag: (lag.client, lag.topic, lag.location.partition)))


def _client_columns(columns: TableColumns, facts: ConnectionFacts) -> tuple[CodedText, CodedText]:
    """Return the client id and the host of each row."""
    rows = facts.rows(columns)
    return facts.clients(columns.text("client_id"), rows), facts.columns.text("client_host").take(rows)


def _earliest(columns: TableColumns, groups: RowGroups, rows: Int64s) -> Int64s:
    """Return the first of some rows of each group, by time and then by lag."""
    order = rows[np.lexsort((columns.ints("lag")[rows], columns.ints("order_ns")[rows], groups.of[rows]))]
    _, first = np.unique(groups.of[order], return_index=True)
    return order[first]
