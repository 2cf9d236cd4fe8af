"""Inputs of signals: merged tables, facts of connections, names, and what rules found."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import AT_CONTROLLERS
from kdissect.protocol.api_mask import in_apis
from kdissect.report.aggregate.grouping import TableColumns, distinct_numbers, map_distinct
from kdissect.report.aggregate.partial_tables import BROKERS, PartialTable
from kdissect.report.findings.finding_context import FindingContext
from kdissect.report.model.findings import Finding
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import KAFKA, ConnectionFacts
from kdissect.report.query.topic_names import Address, TopicNames
from kdissect.report.signals.named_rows import NamedColumns, NamedRows, client_rows, server_rows
from kdissect.report.signals.server_names import ServerNames, follower_of
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import PACE, SIGNAL_GRID, VOTERS

T = TypeVar("T")
TALKING = (*KAFKA, "tls")
"""Protocols of connections that a client and a server talk on; the others are attempts or unknown."""


ADDRESS = ("server_host", "server_port")


def talking(columns: TableColumns) -> Bools:
    """Return which connections talk."""
    talks = np.zeros(columns.rows, bool)
    for protocol in TALKING:
        talks |= columns.equals("protocol", protocol)
    return talks


def _tuple(*values: Any) -> tuple[Any, ...]:
    return values


def _addresses(columns: TableColumns) -> tuple[list[Address], Int64s]:
    """Return the addresses of servers, each once, and the number of that of each connection."""
    return columns.once("addresses", lambda: map_distinct(_tuple, *map(columns.column, ADDRESS)))


def named_servers(partial: Partial, facts: ConnectionFacts) -> ServerNames:
    """Return the names of the servers of all connections."""
    columns = facts.columns
    addresses, address = _addresses(columns)
    counts = np.bincount(address, minlength=len(addresses)).tolist()
    talking_at = np.bincount(address[talking(columns)], minlength=len(addresses)).tolist()
    calling, _ = map_distinct(_tuple, *map(columns.column, (*ADDRESS, "client_id")))
    fetchers = [((host, port), follower_of(client)) for host, port, client in calling]
    pace = partial.columns(PACE)
    at_controllers = pace.filter(pace.present("api_key") & in_apis(pace.ints("api_key"), AT_CONTROLLERS))
    return ServerNames(
        dict(zip(addresses, counts, strict=True)),
        [*partial.columns(BROKERS).dicts(), *_voters(partial, facts)],
        [(address, node) for address, node in fetchers if node is not None],
        {address for address, talks in zip(addresses, talking_at, strict=True) if not talks},
        set(zip(*map(at_controllers.values, ADDRESS), strict=True)),
    )


def _voters(partial: Partial, facts: ConnectionFacts) -> Iterator[dict[str, Any]]:
    """Yield node id, host and port of the controllers that others call by their node id."""
    voters = partial.columns(VOTERS)
    rows = facts.rows(voters)
    addresses = (facts.column_at(name, rows).to_pylist() for name in ADDRESS)
    for node, host, port in zip(voters.values("node_id"), *addresses, strict=True):
        yield {"node_id": node, "host": host, "port": port}


class Connections(NamedTuple):
    """Facts of all connections, one row for each, as arrays: index of the server and client, times, kind.

    `client` is the index of client id and host, `host` that of the client's host alone. `talks` tells
    connections with Kafka or TLS from attempts. `ends` is where a FIN or RST was captured, `closed_ns` its
    time (of the last packet without one), and `by_server` tells whether the server sent it first.
    `client_last_ns` has a row for each client: its last packet on a connection that talks, 0 without one.
    """

    server: Int64s
    client: Int64s
    host: Int64s
    first_ns: Int64s
    last_ns: Int64s
    closed_ns: Int64s
    by_server: Bools
    talks: Bools
    ends: Bools
    client_last_ns: Int64s


class SignalContext:
    """Everything that signals are made from, and the incidents that explain them."""

    def __init__(
        self, partial: Partial, findings: FindingContext, found: tuple[Finding, ...], topics: TopicNames
    ) -> None:
        self.partial, self.rules, self.found, self.topics = partial, findings, found, topics
        self.capture, self.facts = findings.capture, findings.facts
        self.begin_ns, self.end_ns = self._span()
        columns = self.facts.columns
        self.addresses, self.address = _addresses(columns)
        self.talks = talking(columns)
        self.servers = named_servers(partial, self.facts)
        self._shared: dict[Callable[[SignalContext], Any], Any] = {}
        self._rows: dict[tuple[PartialTable, tuple[str, ...]], list[dict[str, Any]]] = {}
        self._named_columns: dict[PartialTable, NamedColumns] = {}

    def shared(self, make: Callable[["SignalContext"], T]) -> T:
        """Return what `make` makes of this capture. It is made once: that takes a pass over tables."""
        if make not in self._shared:
            self._shared[make] = make(self)
        made: T = self._shared[make]
        return made

    def _span(self) -> tuple[int, int]:
        """Return the first and the last time of the capture."""
        if self.capture.first_time_ns is not None and self.capture.last_time_ns is not None:
            return self.capture.first_time_ns, self.capture.last_time_ns
        columns = self.facts.columns
        if not columns.rows:
            return 0, 0
        return int(columns.ints("first_time_ns").min()), int(columns.ints("last_time_ns").max())

    def table(self, part: PartialTable) -> TableColumns:
        """Return a table of the partial."""
        return self.partial.columns(part)

    def values(self, part: PartialTable, *names: str) -> Iterator[tuple[Any, ...]]:
        """Return what each row of a table has in some columns (see `NamedColumns`)."""
        return self._named(part).values(*names)

    def rows(self, part: PartialTable, *names: str) -> list[dict[str, Any]]:
        """Return the rows of a table with some columns or all: made once, and nobody changes them."""
        key = part, names
        if key not in self._rows:
            self._rows[key] = self._named(part).dicts(*names)
        return self._rows[key]

    def _named(self, part: PartialTable) -> NamedColumns:
        if part not in self._named_columns:
            self._named_columns[part] = NamedColumns(self.table(part), self.topics)
        return self._named_columns[part]

    @cached_property
    def grid(self) -> Grid | None:
        """Return the grid of the tables of signals, None if they were not counted."""
        rows = self.rows(SIGNAL_GRID)
        return Grid(*(rows[0][name] for name in Grid._fields)) if rows else None

    @cached_property
    def _servers(self) -> NamedRows:
        return server_rows(self.facts.columns, self.servers)

    @cached_property
    def _clients(self) -> NamedRows:
        return client_rows(self.facts.columns)

    @property
    def server_names(self) -> tuple[str, ...]:
        """Return the names that `connections.server` numbers."""
        return self._servers.names

    @property
    def client_names(self) -> tuple[str, ...]:
        """Return the names that `connections.client` numbers."""
        return self._clients.names

    @cached_property
    def connections(self) -> Connections:
        """Return the facts of connections in the order of `facts`."""
        columns, client, talks = self.facts.columns, self._clients.of, self.talks
        last_ns = columns.ints("last_time_ns")
        client_last_ns = np.zeros(len(self.client_names), np.int64)
        np.maximum.at(client_last_ns, client[talks], last_ns[talks])
        return Connections(
            server=self._servers.of,
            client=client,
            host=columns.text("client_host").numbers,
            first_ns=columns.ints("first_time_ns"),
            last_ns=last_ns,
            closed_ns=columns.coalesce("closed_ns", "last_time_ns"),
            by_server=columns.equals("closed_by", "server"),
            talks=talks,
            ends=self.facts.closed,
            client_last_ns=client_last_ns,
        )

    def end_of(self, connection: int | None) -> dict[str, Any]:
        """Return both ends of a connection by the names of columns; None where it is not known."""
        names = ("client_host", "client_port", "server_host", "server_port")
        at = int(np.searchsorted(self.facts.numbers, -1 if connection is None else connection))
        if at >= len(self.facts.numbers) or self.facts.numbers[at] != connection:
            return dict.fromkeys(names)
        return {name: self.facts.columns.arrow(name)[at].as_py() for name in names}

    def last_seen(self, connection: int) -> int:
        """Return the time at which a connection was closed, or of its last packet; the begin if unknown."""
        row = int(np.searchsorted(self.facts.numbers, connection))
        known = row < len(self.facts.numbers) and self.facts.numbers[row] == connection
        return int(self.connections.closed_ns[row]) if known else self.begin_ns

    def first_seen(self, connection: int) -> int:
        """Return the time of the first packet of a connection; the begin of the capture if unknown."""
        row = int(np.searchsorted(self.facts.numbers, connection))
        known = row < len(self.facts.numbers) and self.facts.numbers[row] == connection
        return int(self.connections.first_ns[row]) if known else self.begin_ns

    def is_closed(self, connection: int) -> bool:
        """Return whether the end of a connection was captured."""
        row = int(np.searchsorted(self.facts.numbers, connection))
        known = row < len(self.facts.numbers) and self.facts.numbers[row] == connection
        return bool(known and self.connections.ends[row])

    def clients_of(self, rows: Int64s) -> tuple[str, ...]:
        """Return the names of the clients of connections, each once, in order."""
        numbers = distinct_numbers(self.connections.client[rows], len(self.client_names))
        return tuple(self.client_names[number] for number in numbers.tolist())

    def clients_at(self, rows: Int64s) -> tuple[str, ...]:
        """Return the clients with an id at the hosts of attempts to connect, which have no id themselves."""
        talking = np.isin(self.connections.host, self.connections.host[rows])
        talking &= self.connections.talks & self.facts.columns.present("client_id")
        return self.clients_of(np.flatnonzero(talking))
