"""The profile: what takes the time, by API, client, broker, topic, group or connection.

Rows are in order of total service time, as pt-query-digest ranks queries. Versions of an API count together.
A profile by topic has a row for each API that names the topic, and an exchange that names several topics
counts for each of them. A profile by group has only requests that name a group, which a Fetch does not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kdissect.report.aggregate.grouping import map_distinct
from kdissect.report.model.limited import Limited, limited
from kdissect.report.model.summary import BrokerRow, Profile, ProfileBy, ProfileRow, TopicRow
from kdissect.report.query.call_table import CallTable, RankedGroups
from kdissect.report.query.connection_facts import CLIENT_COLUMNS
from kdissect.report.wording import number_ranges, software_text
from kdissect.text import format_address

MAX_PROFILE_ROWS = 1000
FIGURES = (
    "exchanges",
    "error_responses",
    "unanswered",
    "throttled",
    "doubtful",
    "time_share",
    "service",
    "idle",
)
Label = tuple[str | None, str | None]
"""Label and detail of a row."""


def rank_profile(
    by: ProfileBy, calls: CallTable, topics: Sequence[TopicRow], brokers: Sequence[BrokerRow]
) -> Profile:
    """Return the profile by API, client, broker, topic, group or connection."""
    ranked = _by_topic(topics, calls.service_ns) if by is ProfileBy.TOPIC else _PROFILES[by](calls, brokers)
    return Profile(by=by, rows=ranked.rows, omitted=ranked.omitted)


def _rows(
    ranked: RankedGroups,
    label: Callable[[list[Any]], Label],
    order: Sequence[int] | None = None,
) -> Limited[ProfileRow]:
    groups = limited(ranked.order if order is None else order, MAX_PROFILE_ROWS)
    rows = (_row(ranked, group, label) for group in groups.rows)
    return Limited(tuple(rows), groups.omitted)


def _row(ranked: RankedGroups, group: int, label: Callable[[list[Any]], Label]) -> ProfileRow:
    figures = ranked.figures.of(group)
    name, detail = label([column[group] for column in ranked.keys])
    return ProfileRow(label=name, detail=detail, **{field: getattr(figures, field) for field in FIGURES})


def _by_api(calls: CallTable, _brokers: Sequence[BrokerRow]) -> Limited[ProfileRow]:
    columns = (calls.added.column(name) for name in ("api_key", "api_name", "api_version"))
    called, _ = map_distinct(lambda *api: api, *columns)
    versions: dict[tuple[int | None, str | None], set[int]] = {}
    for key, name, version in called:
        if version is not None:
            versions.setdefault((key, name), set()).add(version)

    def label(keys: list[Any]) -> Label:
        key, name = keys
        return name or (None if key is None else f"API {key}"), (
            number_ranges(versions.get((key, name), ())) or None
        )

    return _rows(calls.group_by(("api_key", "api_name")), label)


def _by_client(calls: CallTable, _brokers: Sequence[BrokerRow]) -> Limited[ProfileRow]:
    def label(keys: list[Any]) -> Label:
        client_id, software, version, host = keys
        return client_id, ", ".join(part for part in (host, software_text(software, version)) if part) or None

    return _rows(calls.group_by(("client_id",), CLIENT_COLUMNS), label)


def _by_broker(calls: CallTable, brokers: Sequence[BrokerRow]) -> Limited[ProfileRow]:
    nodes = {(broker.server_host, broker.server_port): broker.node_id for broker in brokers}

    def label(keys: list[Any]) -> Label:
        host, port = keys
        node = nodes.get((host, port))
        return format_address(host or "?", port), None if node is None else f"node {node}"

    return _rows(calls.group_by((), ("server_host", "server_port")), label)


def _by_connection(calls: CallTable, _brokers: Sequence[BrokerRow]) -> Limited[ProfileRow]:
    def label(keys: list[Any]) -> Label:
        _, client_id, client_host, client_port, server_host, server_port = keys
        client = format_address(client_host or "?", client_port)
        return f"{client} > {format_address(server_host or '?', server_port)}", client_id

    columns = ("client_id", "client_host", "client_port", "server_host", "server_port")
    return _rows(calls.group_by(("connection",), columns), label)


def _by_group(calls: CallTable, _brokers: Sequence[BrokerRow]) -> Limited[ProfileRow]:
    ranked = calls.group_by(("group_id",))
    named = [group for group in ranked.order if ranked.keys[0][group] is not None]
    return _rows(ranked, lambda keys: (keys[0], None), named)


def _by_topic(topics: Sequence[TopicRow], total_ns: int) -> Limited[ProfileRow]:
    rows = [
        ProfileRow(
            label=topic.topic,
            detail=use.api_name,
            exchanges=use.exchanges,
            error_responses=use.errors,
            unanswered=use.unanswered,
            throttled=use.throttled,
            doubtful=use.doubtful,
            time_share=round((use.service.sum_ns if use.service else 0) / max(total_ns, 1), 6),
            service=use.service,
            idle=use.idle,
        )
        for topic in topics
        for use in topic.uses
    ]
    rows.sort(key=lambda row: (-(row.service.sum_ns if row.service else 0), -row.exchanges, row.label or ""))
    return limited(rows, MAX_PROFILE_ROWS)


_PROFILES: Mapping[ProfileBy, Callable[[CallTable, Sequence[BrokerRow]], Limited[ProfileRow]]] = {
    ProfileBy.API: _by_api,
    ProfileBy.CLIENT: _by_client,
    ProfileBy.BROKER: _by_broker,
    ProfileBy.GROUP: _by_group,
    ProfileBy.CONNECTION: _by_connection,
}
