"""Rankings of a report: the same figures by API and version, by client and by broker."""

from collections.abc import Mapping
from typing import Any

from kdissect.report.model.limited import Limited, limited
from kdissect.report.model.summary import (
    ApiRow,
    BrokerRow,
    ClientRow,
    Location,
)
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import CLIENT_COLUMNS, client_name
from kdissect.text import LOOPBACK_HOSTS

Address = tuple[str | None, int | None]


def rank_apis(
    calls: CallTable, locations: Mapping[tuple[str, int | None, int | None], Location]
) -> tuple[ApiRow, ...]:
    """Return the figures by API key and version, with locations by kind, API key and version."""
    ranked = calls.group_by(("api_key", "api_name", "api_version"))
    rows = []
    for group in ranked.order:
        key, name, version = (column[group] for column in ranked.keys)
        rows.append(
            ApiRow(
                api_key=key,
                api_name=name,
                api_version=version,
                figures=ranked.figures.of(group),
                slowest=locations.get(("slowest", key, version)),
                first_unanswered=locations.get(("unanswered", key, version)),
                first_orphan=locations.get(("orphan", key, version)),
                first_throttled=locations.get(("throttled", key, version)),
            )
        )
    return tuple(rows)


def rank_clients(calls: CallTable, most: int) -> Limited[ClientRow]:
    """Return the figures by client id, software and host."""
    ranked = calls.group_by(("client_id",), CLIENT_COLUMNS)
    groups = limited(ranked.order, most)
    rows = (
        ClientRow(
            name=client_name(ranked.keys[0][group], [column[group] for column in ranked.keys[1:]]),
            connections=int(ranked.connections[group]),
            figures=ranked.figures.of(group),
        )
        for group in groups.rows
    )
    return Limited(tuple(rows), groups.omitted)


def rank_brokers(calls: CallTable, brokers: list[dict[str, Any]], most: int) -> Limited[BrokerRow]:
    """Return the figures by server address; `brokers` are rows of node id, host and port."""
    ranked = calls.group_by((), ("server_host", "server_port"))
    addresses: list[Address] = list(zip(*ranked.keys, strict=True))
    nodes = node_ids(addresses, brokers)
    groups = limited(ranked.order, most)
    rows = (
        BrokerRow(
            server_host=addresses[group][0],
            server_port=addresses[group][1],
            node_id=nodes.get(addresses[group]),
            connections=int(ranked.connections[group]),
            figures=ranked.figures.of(group),
        )
        for group in groups.rows
    )
    return Limited(tuple(rows), groups.omitted)


def node_ids(addresses: list[Address], brokers: list[dict[str, Any]]) -> dict[Address, int]:
    """Return the node id of each address that one broker has: by host and port, else by a unique port."""
    by_address: dict[Address, set[int]] = {}
    by_port: dict[int, set[int]] = {}
    for row in brokers:
        for host in LOOPBACK_HOSTS if row["host"] in LOOPBACK_HOSTS else (row["host"],):
            by_address.setdefault((host, row["port"]), set()).add(row["node_id"])
        by_port.setdefault(row["port"], set()).add(row["node_id"])
    ports = [port for _, port in addresses]
    node_of = {}
    for address in addresses:
        port = address[1]
        nodes = by_address.get(address)
        if not nodes and port is not None and ports.count(port) == 1:
            nodes = by_port.get(port)
        if nodes and len(nodes) == 1:
            node_of[address] = next(iter(nodes))
    return node_of
