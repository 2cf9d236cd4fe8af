"""Facts of connections, looked up from any part of a partial that carries connection numbers."""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.report.aggregate.grouping import (
    Mask,
    TableColumns,
    encode,
    group_rows,
    nullable_ints,
    sum_by_group,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import CONNECTION_FACTS
from kdissect.report.model.summary import (
    ClientName,
    ConnectionTotals,
    ProtocolRow,
    SaslRow,
    SoftwareRow,
    TlsRow,
)
from kdissect.report.query.figures import ConnectionFlags, exact_latencies

CLIENT_COLUMNS = ("client_software_name", "client_software_version", "client_host")
KAFKA = ("kafka", "kafka-0.7")
TLS_COLUMNS = {
    name: f"tls_{name}" for name in ("version", "cipher", "outcome", "alert", "alert_by", "decryption")
}
SASL_COLUMNS = {"mechanism": "sasl_mechanism", "outcome": "sasl_outcome", "error_name": "sasl_error"}
Seen = TypeVar("Seen", TlsRow, SaslRow)


class ConnectionFacts:
    """The connections table in order of connection number."""

    def __init__(self, connections: pa.Table) -> None:
        self.columns = TableColumns(connections.sort_by("connection"))
        self.numbers = self.columns.ints("connection")
        one_way = (self.columns.ints("bytes_to_server") == 0) | (self.columns.ints("bytes_to_client") == 0)
        # The server's side was captured: it shook hands, and said no more.
        silent = self.columns.known("server_rtt_ns")
        self.one_way: Mask = (
            one_way
            & ~silent
            & (self.columns.ints("bytes_to_server") + self.columns.ints("bytes_to_client") > 0)
        )
        self.lossy: Mask = (self.columns.ints("lost_bytes") > 0) | self.one_way
        self.closed: Mask = self.columns.equals("closed", "fin") | self.columns.equals("closed", "rst")

    def rows(self, connection: TableColumns) -> Ints:
        """Give the row of each `connection` in these facts, -1 where there is none."""
        wanted = connection.ints("connection")
        if not len(self.numbers):
            return np.full(len(wanted), -1, np.int64)
        found = np.minimum(np.searchsorted(self.numbers, wanted), len(self.numbers) - 1)
        return np.where((self.numbers[found] == wanted) & connection.known("connection"), found, -1)

    def taken(self, name: str, rows: Ints) -> pa.Array:
        """Give a column for rows found by `rows`, null for -1."""
        return self.columns.plain(name).take(nullable_ints(rows, rows >= 0))

    def client_ids(self, column: pa.Array, rows: Ints) -> pa.Array:
        """Give client ids of exchanges; those of the connection where there is none (an answer without its request)."""
        return pc.coalesce(column, self.taken("client_id", rows))

    def fate(self, rows: Ints) -> ConnectionFlags:
        """Tell what became of the connections at `rows`; of an unknown one nothing is held against it."""
        there = rows >= 0
        if not len(self.numbers):
            return ConnectionFlags(there, there)
        return ConnectionFlags(there & self.lossy[rows], there & self.closed[rows])


def client_name(client_id: str | None, facts: list[str | None]) -> ClientName:
    """Put a client's name together from its id and `CLIENT_COLUMNS`."""
    software, version, host = facts
    return ClientName(
        client_id=client_id, client_software_name=software, client_software_version=version, client_host=host
    )


def connection_totals(facts: ConnectionFacts) -> ConnectionTotals:
    """Give the figures of all connections."""
    columns = facts.columns
    names = columns.plain("protocol").to_pylist()
    kafka = np.array([name in KAFKA for name in names], bool)
    traffic = columns.ints("bytes_to_server") + columns.ints("bytes_to_client")
    protocols = [
        ProtocolRow(
            protocol=name,
            connections=int(mask.sum()),
            packets=int(columns.ints("packets")[mask].sum()),
            bytes=int(traffic[mask].sum()),
        )
        for name in sorted({name for name in names if name is not None})
        for mask in (columns.equals("protocol", name),)
    ]

    software = [columns.plain(name) for name in CLIENT_COLUMNS[:2]]
    named = group_rows(*(encode(column) for column in software))
    made_by = zip(
        *(column.take(pa.array(named.first)).to_pylist() for column in software),
        sum_by_group(named, kafka).tolist(),
        strict=True,
    )

    def total(name: str) -> int:
        return int(columns.ints(name)[kafka].sum())

    def count(mask: Mask) -> int:
        return int((mask & kafka).sum())

    def rtt(name: str) -> Ints:
        values = columns.ints(name)
        return values[kafka & columns.known(name) & (values >= 0)]

    return ConnectionTotals(
        count=columns.rows,
        protocols=tuple(sorted(protocols, key=lambda row: (-row.bytes, row.protocol))),
        tls=_kinds(columns, TlsRow, TLS_COLUMNS, {"bytes": traffic, "undecrypted_bytes": columns.ints("tls_undecrypted_bytes")}),
        sasl=_kinds(
            columns, SaslRow, SASL_COLUMNS, {"reauthentications": columns.ints("sasl_reauthentications")}
        ),
        software=tuple(
            sorted(
                (SoftwareRow(software_name=name, software_version=version, connections=count) for name, version, count in made_by if name and count),
                key=lambda row: (-row.connections, row.software_name, row.software_version or ""),
            )
        ),
        opened_by_handshake=count(columns.equals("opened", "handshake")),
        midstream=count(columns.equals("opened", "midstream")),
        one_way=count(facts.one_way),
        closed_by_fin=count(columns.equals("closed", "fin")),
        closed_by_rst=count(columns.equals("closed", "rst")),
        still_open=count(columns.equals("closed", "open")),
        lossy=count(columns.ints("lost_bytes") > 0),
        server_rtt=exact_latencies(rtt("server_rtt_ns")).latency(0),
        client_rtt=exact_latencies(rtt("client_rtt_ns")).latency(0),
        **{
            name: total(name)
            for name in (
                "lost_bytes", "packets", "bytes_to_server", "bytes_to_client", "cut_bytes", "retransmitted_segments",
                "conflicting_segments", "out_of_order_segments", "zero_windows", "duplicate_packets", "faults", "skipped_bytes", "oversized_frames", "overfull_holes", "overheld_waits",
            )
        },
    )  # fmt: skip


def _kinds(
    columns: TableColumns, kind: type[Seen], named: Mapping[str, str], totals: Mapping[str, Ints]
) -> tuple[Seen, ...]:
    """Count connections by the columns `named` gives for fields; those without an outcome are passed over."""
    keys = [columns.plain(column) for column in named.values()]
    groups = group_rows(*map(encode, keys))
    rows = zip(
        *(column.take(pa.array(groups.first)).to_pylist() for column in keys),
        *(
            sum_by_group(groups, values).tolist()
            for values in (np.ones(columns.rows, np.int64), *totals.values())
        ),
        strict=True,
    )
    fields = (*named, "connections", *totals)
    found = [dict(zip(fields, row, strict=True)) for row in rows]
    found.sort(key=lambda row: (-row["connections"], *(str(row[name]) for name in named)))
    return tuple(kind(**row) for row in found if row["outcome"] is not None)


def read_connection_facts(parts: pa.Table) -> ConnectionFacts:
    """Read the FACTS part."""
    return ConnectionFacts(parts.select(CONNECTION_FACTS.schema.names))
