"""The profile: what takes the time, by API, client, broker, topic, group or connection.

Rows are in order of total service time, as pt-query-digest ranks queries. Versions of an API count together. By topic there
is a row for each API that names it, and an exchange that names several topics counts for each of them; by group only what
names a group counts (a Fetch does not).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kdissect.report.model.summary import (
    BrokerRow,
    Profile,
    ProfileBy,
    ProfileRow,
    TopicRow,
)
from kdissect.report.query.call_table import CallTable, RankedGroups
from kdissect.report.query.connection_facts import client_name
from kdissect.report.query.figures import GroupFigures as Figured

MOST_ROWS = 1000


def rank_profile(
    by: ProfileBy, ranking: CallTable, topics: Sequence[TopicRow], brokers: Sequence[BrokerRow]
) -> Profile:
    """Give the ranking that was asked for."""
    if by is ProfileBy.TOPIC:
        rows, omitted = _topics(topics, ranking.totals_ns), 0
    else:
        rows, omitted = _RANKINGS[by](ranking, brokers)
    return Profile(by=by, rows=tuple(rows[:MOST_ROWS]), omitted=omitted + max(len(rows) - MOST_ROWS, 0))


def profile_row(label: str | None, detail: str | None, figured: Figured, group: int) -> ProfileRow:
    """Give the row of one group of calls."""
    figures = figured.figures(group)
    same = (
        "exchanges",
        "error_responses",
        "unanswered",
        "throttled",
        "doubtful",
        "time_share",
        "service",
        "idle",
    )
    return ProfileRow(label=label, detail=detail, **{name: getattr(figures, name) for name in same})


def _rows(
    ranked: RankedGroups,
    name: Callable[[list[Any]], tuple[str | None, str | None]],
    wanted: Sequence[int] | None = None,
) -> tuple[list[ProfileRow], int]:
    order = ranked.order if wanted is None else wanted
    rows = [
        profile_row(*name([column[group] for column in ranked.keys]), ranked.profile, group)
        for group in order[:MOST_ROWS]
    ]
    return rows, max(len(order) - MOST_ROWS, 0)


def _apis(ranking: CallTable, _brokers: Sequence[BrokerRow]) -> tuple[list[ProfileRow], int]:
    calls = zip(
        *(ranking.calls.plain(name).to_pylist() for name in ("api_key", "api_name", "api_version")),
        strict=True,
    )
    versions: dict[tuple[int | None, str | None], set[int]] = {}
    for key, name, version in calls:
        if version is not None:
            versions.setdefault((key, name), set()).add(version)

    def named(keys: list[Any]) -> tuple[str | None, str | None]:
        key, name = keys
        return name or (None if key is None else f"API {key}"), number_ranges(
            versions.get((key, name), set())
        )

    return _rows(ranking.by(("api_key", "api_name")), named)


def number_ranges(numbers: set[int]) -> str | None:
    """Give 0, 3-5, 9 for a set of whole numbers; None for none."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in found) or None


def _clients(ranking: CallTable, _brokers: Sequence[BrokerRow]) -> tuple[list[ProfileRow], int]:
    def named(keys: list[Any]) -> tuple[str | None, str | None]:
        name = client_name(keys[0], keys[1:])
        software = " ".join(
            part for part in (name.client_software_name, name.client_software_version) if part
        )
        return name.client_id, ", ".join(part for part in (name.client_host, software) if part) or None

    columns = ("client_software_name", "client_software_version", "client_host")
    return _rows(ranking.by(("client_id",), columns), named)


def _brokers(ranking: CallTable, brokers: Sequence[BrokerRow]) -> tuple[list[ProfileRow], int]:
    nodes = {(broker.server_host, broker.server_port): broker.node_id for broker in brokers}

    def named(keys: list[Any]) -> tuple[str | None, str | None]:
        node = nodes.get((keys[0], keys[1]))
        return address(*keys), None if node is None else f"node {node}"

    return _rows(ranking.by((), ("server_host", "server_port")), named)


def _connections(ranking: CallTable, _brokers: Sequence[BrokerRow]) -> tuple[list[ProfileRow], int]:
    def named(keys: list[Any]) -> tuple[str | None, str | None]:
        _, client_id, *ends = keys
        return f"{address(*ends[:2])} > {address(*ends[2:])}", client_id

    ends = ("client_id", "client_host", "client_port", "server_host", "server_port")
    return _rows(ranking.by(("connection",), ends), named)


def _groups(ranking: CallTable, _brokers: Sequence[BrokerRow]) -> tuple[list[ProfileRow], int]:
    ranked = ranking.by(("group_id",))
    named = [group for group in ranked.order if ranked.keys[0][group] is not None]
    return _rows(ranked, lambda keys: (keys[0], None), named)


def _topics(topics: Sequence[TopicRow], total_ns: int) -> list[ProfileRow]:
    rows = [
        ProfileRow(
            label=topic.topic,
            detail=use.api_name,
            exchanges=use.exchanges,
            error_responses=use.errors,
            unanswered=0,
            throttled=0,
            doubtful=0,
            time_share=round((use.service.sum_ns if use.service else 0) / max(total_ns, 1), 6),
            service=use.service,
            idle=use.idle,
        )
        for topic in topics
        for use in topic.uses
    ]
    rows.sort(key=lambda row: (-(row.service.sum_ns if row.service else 0), -row.exchanges, row.label or ""))
    return rows


def address(host: str | None, port: int | None) -> str:
    """Give 10.0.0.1:9092 or [::1]:9092."""
    shown = host or "?"
    return f"{f'[{shown}]' if ':' in shown else shown}:{'?' if port is None else port}"


_RANKINGS: Mapping[ProfileBy, Callable[[CallTable, Sequence[BrokerRow]], tuple[list[ProfileRow], int]]] = {
    ProfileBy.API: _apis,
    ProfileBy.CLIENT: _clients,
    ProfileBy.BROKER: _brokers,
    ProfileBy.GROUP: _groups,
    ProfileBy.CONNECTION: _connections,
}
