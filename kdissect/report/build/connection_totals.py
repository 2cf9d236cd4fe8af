"""Figures of all TCP connections: by protocol, TLS, SASL and client software, and totals for Kafka."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.group_sums import sum_by_group
from kdissect.report.aggregate.grouping import TableColumns, encode, group_rows
from kdissect.report.model.call_figures import Latency
from kdissect.report.model.connection_rows import (
    ConnectionTotals,
    ProtocolRow,
    SaslRow,
    SoftwareRow,
    TlsRow,
)
from kdissect.report.query.connection_facts import KAFKA, ConnectionFacts
from kdissect.report.query.figures import exact_latencies

TLS_COLUMNS = {
    name: f"tls_{name}" for name in ("version", "cipher", "outcome", "alert", "alert_by", "decryption")
}
SASL_COLUMNS = {"mechanism": "sasl_mechanism", "outcome": "sasl_outcome", "error_name": "sasl_error"}
SOFTWARE_COLUMNS = {
    "software_name": "client_software_name",
    "software_version": "client_software_version",
}
UNKNOWN, NO_DATA = "unknown", "none"
SUMMED = (
    "lost_bytes",
    "packets",
    "bytes_to_server",
    "bytes_to_client",
    "cut_bytes",
    "retransmitted_segments",
    "conflicting_segments",
    "out_of_order_segments",
    "zero_windows",
    "duplicate_packets",
    "faults",
    "skipped_bytes",
    "oversized_frames",
    "overfull_holes",
    "overheld_waits",
)
SecurityRow = TypeVar("SecurityRow", TlsRow, SaslRow)


def connection_totals(facts: ConnectionFacts) -> ConnectionTotals:
    """Return the figures of all connections."""
    columns = facts.columns
    kafka = np.zeros(columns.rows, bool)
    for protocol in KAFKA:
        kafka |= columns.equals("protocol", protocol)

    def count(mask: Bools) -> int:
        return int((mask & kafka).sum())

    traffic = columns.ints("bytes_to_server") + columns.ints("bytes_to_client")
    tls_sums = {"bytes": traffic, "undecrypted_bytes": columns.ints("tls_undecrypted_bytes")}
    sasl_sums = {"reauthentications": columns.ints("sasl_reauthentications")}
    return ConnectionTotals(
        count=columns.rows,
        protocols=_protocols(columns, traffic),
        tls=_security(columns, TlsRow, TLS_COLUMNS, tls_sums),
        sasl=_security(columns, SaslRow, SASL_COLUMNS, sasl_sums),
        software=_software(columns, kafka),
        opened_by_handshake=count(columns.equals("opened", "handshake")),
        midstream=count(columns.equals("opened", "midstream")),
        one_way=count(facts.one_way),
        closed_by_fin=count(columns.equals("closed", "fin")),
        closed_by_rst=count(columns.equals("closed", "rst")),
        still_open=count(columns.equals("closed", "open")),
        lossy=count(columns.ints("lost_bytes") > 0),
        server_rtt=_round_trips(columns, "server_rtt_ns", kafka),
        client_rtt=_round_trips(columns, "client_rtt_ns", kafka),
        **{name: int(columns.ints(name)[kafka].sum()) for name in SUMMED},
    )


def _protocols(columns: TableColumns, traffic: Int64s) -> tuple[ProtocolRow, ...]:
    names = columns.text("protocol").texts.to_pylist()
    masks = {name: mask for name in sorted(names) if (mask := columns.equals("protocol", name)).any()}
    # Attempts to connect that were refused or not answered have nothing that could be recognised.
    unknown = masks.pop(UNKNOWN, np.zeros(columns.rows, bool))
    masks |= {
        name: mask
        for name, mask in ((UNKNOWN, unknown & (traffic > 0)), (NO_DATA, unknown & (traffic == 0)))
        if mask.any()
    }
    rows = [
        ProtocolRow(
            protocol=name,
            connections=int(mask.sum()),
            packets=int(columns.ints("packets")[mask].sum()),
            bytes=int(traffic[mask].sum()),
        )
        for name, mask in masks.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.protocol)))


def _software(columns: TableColumns, kafka: Bools) -> tuple[SoftwareRow, ...]:
    rows = [
        SoftwareRow(**row)
        for row in _counted(columns, SOFTWARE_COLUMNS, {"connections": kafka})
        if row["software_name"] and row["connections"]
    ]
    rows.sort(key=lambda row: (-row.connections, row.software_name, row.software_version or ""))
    return tuple(rows)


def _security(
    columns: TableColumns, row_type: type[SecurityRow], keys: Mapping[str, str], sums: Mapping[str, Int64s]
) -> tuple[SecurityRow, ...]:
    """Return connections counted by `keys`; those without an outcome are left out."""
    rows = _counted(columns, keys, {"connections": np.ones(columns.rows, np.int64), **sums})
    rows.sort(key=lambda row: (-row["connections"], *(str(row[name]) for name in keys)))
    return tuple(row_type(**row) for row in rows if row["outcome"] is not None)


def _counted(
    columns: TableColumns, keys: Mapping[str, str], sums: Mapping[str, Int64s | Bools]
) -> list[dict[str, Any]]:
    """Return a row for each distinct value of `keys` (field: column), with `sums` added up."""
    groups = group_rows(*(encode(columns.column(column)) for column in keys.values()))
    values: list[Sequence[Any]] = [
        columns.plain(column, groups.first).to_pylist() for column in keys.values()
    ]
    values += [sum_by_group(groups, numbers).tolist() for numbers in sums.values()]
    return [dict(zip((*keys, *sums), row, strict=True)) for row in zip(*values, strict=True)]


def _round_trips(columns: TableColumns, name: str, kafka: Bools) -> Latency | None:
    values = columns.ints(name)
    return exact_latencies(values[kafka & columns.present(name) & (values >= 0)]).of(0)
