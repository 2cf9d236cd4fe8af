"""Facts of connections, for rows of any table of a partial that has connection numbers.

`capture_locations` makes `Location`s of such rows: places in the capture with addresses, clients and topics.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.array_types import Bools, Int64s
from kdissect.jit.many_rows import are_many
from kdissect.report.aggregate.grouping import (
    Codes,
    TableColumns,
    encode,
    find_rows,
    group_rows,
    nullable_ints,
)
from kdissect.report.aggregate.partial_tables import CONNECTION_FACTS
from kdissect.report.model.findings import Location
from kdissect.report.model.summary import ClientName
from kdissect.report.partials import Partial
from kdissect.report.query.figures import ConnectionFlags
from kdissect.report.query.topic_names import TopicNames
from kdissect.tables.array_batch import ArrayColumn, join_columns
from kdissect.tables.coded_text import CodedText

CLIENT_COLUMNS = ("client_software_name", "client_software_version", "client_host")
SHARED = ("client_id", *CLIENT_COLUMNS, "server_host", "server_port")
"""Columns in which connections that are alike are equal (see `alike_connections`)."""

KAFKA = ("kafka", "kafka-0.7")

ADDRESS = ("client_host", "client_port", "server_host", "server_port")
OPTIONAL = {
    "detail": "detail",
    "request_time_ns": "request_first_ns",
    "response_time_ns": "response_first_ns",
}
"""Fields of a location, and the columns that they are read from where a table has them."""

LOCATION_FIELDS = tuple(field.name for field in fields(Location))

OWN = ("capture_file", "request_packet", "response_packet", "connection", "partition")


class ConnectionFacts:
    """The connections table, which is in the order of numbers, and masks of connections that are doubtful."""

    def __init__(self, connections: TableColumns) -> None:
        self.columns = connections
        self.numbers = self.columns.ints("connection")
        has_data = self.columns.ints("bytes_to_server") + self.columns.ints("bytes_to_client") > 0
        self.one_way: Bools = has_data & (
            self._is_silent("client", "server") | self._is_silent("server", "client")
        )
        self.lossy: Bools = (self.columns.ints("lost_bytes") > 0) | self.one_way
        self.closed: Bools = self.columns.equals("closed", "fin") | self.columns.equals("closed", "rst")

    @cached_property
    def kinds(self) -> Codes:
        """Return which connections are alike: equal in the columns that rankings use, and as complete."""
        flags = (self.lossy + 2 * self.closed).astype(np.int64)
        kinds = group_rows(Codes(flags, 4), *(encode(self.columns.column(name)) for name in SHARED))
        return Codes(kinds.of, kinds.count)

    @property
    def holes(self) -> Bools:
        """Return which connections miss bytes that their receiver misses, too: it never acknowledged them.

        Bytes that only the capture lost are acknowledged.
        """
        waiting = np.maximum(
            self.columns.ints("unacknowledged_bytes_to_server"),
            self.columns.ints("unacknowledged_bytes_to_client"),
        )
        lost = self.columns.ints("lost_bytes")
        holes: Bools = (lost > 0) & (waiting >= lost)
        return holes

    @property
    def doubtful(self) -> Bools:
        """Return which connections miss bytes that only the capture lost: a response may be among them."""
        doubtful: Bools = self.lossy & ~self.holes
        return doubtful

    def _is_silent(self, sender: str, receiver: str) -> Bools:
        """Return which connections have no packet that shows that the sender's direction was captured.

        Data shows it, and a handshake, an acknowledgment, or the first FIN or RST: a server that closes a
        connection may have sent no data since the capture began.
        """
        silent: Bools = (
            (self.columns.ints(f"bytes_to_{receiver}") == 0)
            & ~self.columns.present("server_rtt_ns")
            & (self.columns.ints(f"{sender}_acks") == 0)
            & ~self.columns.equals("closed_by", sender)
        )
        return silent

    def rows(self, connection: TableColumns) -> Int64s:
        """Return the row in these facts of each row's `connection`, -1 where there is none.

        The facts are those of the same capture, so many who ask for a table share one search.
        """
        rows: Int64s
        (rows,) = connection.derived("row of the connection", make=lambda: (self._find(connection),))
        return rows

    def _find(self, connection: TableColumns) -> Int64s:
        wanted = connection.ints("connection")
        rows = find_rows(self.numbers, wanted) if are_many(len(wanted)) else self._search(wanted)
        return np.where(connection.present("connection"), rows, -1)

    def _search(self, wanted: Int64s) -> Int64s:
        if not len(self.numbers):
            return np.full(len(wanted), -1, np.int64)
        nearest: Int64s = np.minimum(np.searchsorted(self.numbers, wanted), len(self.numbers) - 1)
        return np.where(self.numbers[nearest] == wanted, nearest, -1)

    def rows_of(self, numbers: Sequence[int | None]) -> list[int]:
        """Return the row in these facts of connections by number, -1 where there is none."""
        wanted = np.array([-1 if number is None else number for number in numbers], np.int64)
        rows: list[int] = self._search(wanted).tolist()
        return rows

    def column_at(self, name: str, rows: Int64s) -> pa.Array:
        """Return a column at rows that `rows` returned, null for -1."""
        return self.columns.arrow(name).take(nullable_ints(rows, rows >= 0))

    def clients(self, own: ArrayColumn, rows: Int64s) -> CodedText:
        """Return what `client_ids` does, as numbers of texts."""
        both = join_columns([own, self.columns.text("client_id").take(rows)])
        assert isinstance(both, CodedText)
        numbers, of_connection = np.split(both.numbers, 2)
        return CodedText(np.where(numbers < 0, of_connection, numbers), both.texts)

    def client_ids(self, column: pa.Array, rows: Int64s) -> pa.Array:
        """Return client ids of exchanges; an orphan response, which has none, gets that of its connection."""
        return pc.coalesce(column, self.column_at("client_id", rows))

    def flags(self, rows: Int64s) -> ConnectionFlags:
        """Return which connections at `rows` are lossy and which were closed; unknown ones are neither."""
        known = rows >= 0
        if not len(self.numbers):
            return ConnectionFlags(known, known)
        return ConnectionFlags(known & self.lossy[rows], known & self.closed[rows])

    def complete(self, rows: Int64s) -> Bools:
        """Return which connections at `rows` were closed and lack nothing."""
        if not len(self.numbers):
            return rows >= 0
        complete: Bools = self.closed & ~self.lossy
        return (rows >= 0) & complete[rows]


def read_connection_facts(partial: Partial) -> ConnectionFacts:
    """Return the facts of all connections of a partial."""
    return ConnectionFacts(partial.ordered(CONNECTION_FACTS))


def client_name(client_id: str | None, facts: Sequence[str | None]) -> ClientName:
    """Return a client from its id and its `CLIENT_COLUMNS`."""
    return ClientName(client_id=client_id, **dict(zip(CLIENT_COLUMNS, facts, strict=True)))


def capture_locations(
    columns: TableColumns, times_ns: Sequence[int | None], facts: ConnectionFacts, topics: TopicNames
) -> list[Location]:
    """Return the location of each row, which has the columns `OWN`, a client id and a topic.

    It may also have a detail, and the times of the two packets.
    """
    rows, has = facts.rows(columns), set(columns.table.schema.names)
    # Columns, not a dictionary for each row: that took a fifth more.
    none: list[None] = [None] * len(rows)
    values: dict[str, Iterable[Any]] = {
        "time_ns": times_ns,
        "client_id": facts.client_ids(columns.arrow("client_id"), rows).to_pylist(),
        "topic": map(topics.name, columns.values("topic"), columns.values("topic_id")),
        **{name: columns.values(name) for name in OWN},
        **{name: facts.column_at(name, rows).to_pylist() for name in ADDRESS},
        **{field: columns.values(name) for field, name in OPTIONAL.items() if name in has},
    }
    return list(map(Location, *(values.get(name, none) for name in LOCATION_FIELDS)))
