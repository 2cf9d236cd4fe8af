"""Rankings of a report: the same figures by API and version, by client and by broker."""

from collections.abc import Mapping
from typing import Any

from kdissect.report.model.findings import Location
from kdissect.report.model.limited import Limited, limited
from kdissect.report.model.summary import ApiRow, BrokerRow, ClientRow
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import CLIENT_COLUMNS, client_name
from kdissect.report.query.topic_names import Address, node_ids


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
