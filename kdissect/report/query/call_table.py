"""Rankings: the same figures per API and version, per client, per broker."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import (
    RowGroups,
    TableColumns,
    encode,
    group_codes,
    group_rows,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import (
    BROKERS,
    CALLS,
    LATENCIES,
)
from kdissect.report.model.summary import (
    ApiRow,
    BrokerRow,
    ClientRow,
    Figures,
    Location,
)
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import (
    CLIENT_COLUMNS,
    ConnectionFacts,
    client_name,
)
from kdissect.report.query.figures import GroupFigures, group_figures

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RankedGroups(NamedTuple):
    """Groups of calls in their order, with what they are grouped by."""

    profile: GroupFigures
    order: list[int]
    keys: list[list[Any]]
    connections: Ints


class CallTable:
    """Calls and latencies of a whole capture, ready to be grouped."""

    def __init__(self, partial: Partial, facts: ConnectionFacts) -> None:
        self.facts = facts
        keys = [
            (name, "ascending") for name, _ in CALLS.keys
        ]  # a fixed order, so that ties rank the same in every run
        self.calls, self.latencies = (
            TableColumns(partial.part(CALLS).sort_by(keys)),
            TableColumns(partial.part(LATENCIES)),
        )
        self.rows, self.latency_rows = facts.rows(self.calls), facts.rows(self.latencies)
        self.brokers = partial.part(BROKERS)
        self.api_names = self._api_names()
        self.client_ids = [
            facts.client_ids(part.plain("client_id"), rows)
            for part, rows in ((self.calls, self.rows), (self.latencies, self.latency_rows))
        ]

    def _api_names(self) -> list[pa.Array]:
        """Name the API of each row. A key alone does not tell: before Kafka 0.8 keys had other meanings, and no versions."""
        parts = (self.calls, self.latencies)
        groups = group_rows(
            *(
                encode(pa.concat_arrays([part.plain(name) for part in parts]))
                for name in ("api_key", "api_version")
            )
        )
        called = groups.of[: self.calls.rows]
        place = np.full(groups.count, -1)
        place[called] = np.arange(len(called))
        names = self.calls.plain("api_name").take(pa.array(place, mask=place < 0))
        return [names.take(pa.array(of)) for of in np.split(groups.of, [len(called)])]

    def by(self, own: Sequence[str] = (), of_connection: Sequence[str] = ()) -> RankedGroups:
        """Group by columns of the calls and of their connections."""
        made = {"client_id": self.client_ids, "api_name": self.api_names}
        columns = [
            pa.concat_arrays(
                made[name] if name in made else [part.plain(name) for part in (self.calls, self.latencies)]
            )
            for name in own
        ]
        rows = np.concatenate([self.rows, self.latency_rows])
        columns += [self.facts.taken(name, rows) for name in of_connection]
        both = group_rows(*(encode(column) for column in columns)) if columns else _one_group(len(rows))
        calls = RowGroups(both.of[: self.calls.rows], both.count, both.first)
        figures = group_figures(
            self.calls, self.latencies, self.facts.fate(self.rows), calls, both.of[self.calls.rows :]
        )
        pairs = group_rows(group_codes(calls), encode(self.calls.plain("connection")))
        keys = [column.take(pa.array(both.first)).to_pylist() for column in columns]
        return RankedGroups(
            figures, figures.ranked(), keys, np.bincount(calls.of[pairs.first], minlength=both.count)
        )

    @property
    def totals_ns(self) -> int:
        """Give the service time of everything."""
        return int(self.calls.ints("latency_ns")[~self.calls.truths("idle_wait")].sum())

    def totals(self) -> Figures:
        """Give the figures of everything."""
        return self.by().profile.figures(0)

    def apis(self, places: dict[tuple[str, int | None, int | None], Location]) -> tuple[ApiRow, ...]:
        """Give the figures per API key and version."""
        ranked = self.by(("api_key", "api_name", "api_version"))
        found = []
        for group in ranked.order:
            key, name, version = (column[group] for column in ranked.keys)
            found.append(
                ApiRow(
                    api_key=key,
                    api_name=name,
                    api_version=version,
                    figures=ranked.profile.figures(group),
                    slowest=places.get(("slowest", key, version)),
                    first_unanswered=places.get(("unanswered", key, version)),
                    first_orphan=places.get(("orphan", key, version)),
                    first_throttled=places.get(("throttled", key, version)),
                )
            )
        return tuple(found)

    def clients(self, limit: int) -> tuple[tuple[ClientRow, ...], int]:
        """Give the figures per client, and how many clients were left out beyond `limit`."""
        ranked = self.by(("client_id",), CLIENT_COLUMNS)
        found = tuple(
            ClientRow(
                name=client_name(ranked.keys[0][group], [column[group] for column in ranked.keys[1:]]),
                connections=int(ranked.connections[group]),
                figures=ranked.profile.figures(group),
            )
            for group in ranked.order[:limit]
        )
        return found, max(len(ranked.order) - limit, 0)

    def servers(self, limit: int) -> tuple[tuple[BrokerRow, ...], int]:
        """Give the figures per broker address, and how many were left out beyond `limit`."""
        ranked = self.by((), ("server_host", "server_port"))
        addresses = list(zip(*ranked.keys, strict=True))
        nodes = node_ids(addresses, self.brokers.to_pylist())
        found = tuple(
            BrokerRow(
                server_host=addresses[group][0],
                server_port=addresses[group][1],
                node_id=nodes.get(addresses[group]),
                connections=int(ranked.connections[group]),
                figures=ranked.profile.figures(group),
            )
            for group in ranked.order[:limit]
        )
        return found, max(len(ranked.order) - limit, 0)


def _one_group(rows: int) -> RowGroups:
    return RowGroups(np.zeros(rows, np.int64), 1, np.zeros(1, np.int64))


def node_ids(addresses: list[tuple[Any, Any]], brokers: list[dict[str, Any]]) -> dict[tuple[Any, Any], int]:
    """Give the node id of each address: by the same host and port, else by a port that one broker and one address have."""
    by_address: dict[tuple[str, int], set[int]] = {}
    by_port: dict[int, set[int]] = {}
    for row in brokers:
        for host in LOOPBACK if row["host"] in LOOPBACK else (row["host"],):
            by_address.setdefault((host, row["port"]), set()).add(row["node_id"])
        by_port.setdefault(row["port"], set()).add(row["node_id"])
    ports = [port for _, port in addresses]
    found = {}
    for address in addresses:
        host, port = address
        nodes = by_address.get(address) or (by_port.get(port) if ports.count(port) == 1 else None)
        if nodes and len(nodes) == 1:
            found[address] = next(iter(nodes))
    return found
