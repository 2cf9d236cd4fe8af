"""Everything that the page shows, as one JSON value.

Times are nanoseconds from the start of the grid, packets are numbers as `PageNames.packet_ref` makes them.
"""

from typing import Any

from kdissect.protocol.error_codes import error_name
from kdissect.report.build.page.connection_panel import describe_connections, round_trips
from kdissect.report.build.page.example_panel import list_examples
from kdissect.report.build.page.group_panel import describe_groups
from kdissect.report.build.page.incident_panel import describe_incidents
from kdissect.report.build.page.lag_panel import lag_by_group
from kdissect.report.build.page.page_names import (
    PageNames,
    Plain,
    plain_figures,
    plain_latency,
)
from kdissect.report.build.page.pivot import (
    list_failures,
    make_pivot,
    make_topic_pivot,
)
from kdissect.report.build.page.producer_panel import describe_producers, describe_transactions
from kdissect.report.build.page.size_budget import (
    LONGEST,
    LONGEST_SENTENCE,
    PAGE,
    fitting_rows,
    json_size,
    shorten,
)
from kdissect.report.model.findings import Finding
from kdissect.report.model.plain import to_plain
from kdissect.report.model.summary import Summary
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import CELL_BITS

MOST_ERRORS, MOST_FAULTS, MOST_TOPICS = 200, 50, 200
NOT_SHORTENED = ("capture", "filters", "topic_pivot", "failures")
"""Parts whose texts stay as they are: they have no names, or paths from which commands are made."""

LONGEST_OF = {"incidents": LONGEST_SENTENCE, "findings": LONGEST_SENTENCE, "doubts": LONGEST_SENTENCE}
"""Parts with sentences, which must be read to their end."""

MOST_FOR_GROUPS, MOST_FOR_PRODUCERS, MOST_FOR_TRANSACTIONS, MOST_FOR_TOPIC_NAMES = (
    500_000,
    150_000,
    250_000,
    150_000,
)


def make_page_data(summary: Summary, partial: Partial, grid: Grid) -> Plain:
    """Return the data of the page."""
    names = PageNames(summary, partial, read_connection_facts(partial), grid.start_ns)
    capture = summary.capture
    found_groups, behind = describe_groups(names), lag_by_group(names, grid)
    for group in found_groups["rows"]:
        group["lag"] = behind.get(group["name"], [])
    _cut(found_groups, MOST_FOR_GROUPS)
    codes = list_failures(names)
    topics = fitting_rows([_topic(row) for row in summary.topics[:MOST_TOPICS]], MOST_FOR_TOPIC_NAMES)
    result = {
        "kdissect": summary.kdissect_version,
        "capture": to_plain(capture)
        | {
            "first": names.since(capture.first_time_ns),
            "last": names.since(capture.last_time_ns),
        },
        "grid": {
            "start_ms": grid.start_ns // 10**6,
            "step": grid.step_ns,
            "steps": grid.steps,
            "cell_bits": CELL_BITS,
        },
        "filters": to_plain(summary.filters),
        "totals": plain_figures(summary.totals) | _counts(summary),
        "traffic": _traffic(summary),
        "incidents": describe_incidents(names),
        "findings": [_finding(names, finding) for finding in summary.findings],
        "apis": [_api(names, row) for row in names.apis.rows(("key",))],
        "versions": [_version(names, row) for row in summary.apis],
        "clients": _clients(names),
        "brokers": [row | {"node": _node(names, row)} for row in names.brokers.rows(("host", "port"))],
        "omitted": {
            "clients": names.clients.omitted,
            "brokers": names.brokers.omitted,
            "topics": len(summary.topics) + summary.omitted.topics - len(topics),
        },
        "failures": codes,
        "error_names": {code: error_name(code) for code in sorted({int(row[2] or 0) for row in codes})},
        "errors": [_error(names, row) for row in summary.errors[:MOST_ERRORS]],
        "faults": [_fault(names, row) for row in summary.faults[:MOST_FAULTS]],
        "topics": topics,
        "topic_pivot": make_topic_pivot(names, [topic["name"] for topic in topics]),
        "groups": found_groups,
        "producers": _cut(describe_producers(names), MOST_FOR_PRODUCERS),
        "transactions": _cut(describe_transactions(names), MOST_FOR_TRANSACTIONS),
        "connections": describe_connections(names),
        "round_trips": round_trips(names),
        "doubts": to_plain(summary.doubts),
        "examples": list_examples(names),
    }
    result = {
        name: part if name in NOT_SHORTENED else shorten(part, LONGEST_OF.get(name, LONGEST))
        for name, part in result.items()
    }
    return result | {"pivot": make_pivot(names, PAGE - json_size(result))}


def _cut(listed: Plain, most: int) -> Plain:
    """Return a list whose last rows are left out if they do not fit, and counted."""
    kept = fitting_rows(listed["rows"], most)
    listed["omitted"] += len(listed["rows"]) - len(kept)
    listed["rows"] = kept
    return listed


def _counts(summary: Summary) -> Plain:
    totals = to_plain(summary.totals)
    wanted = (
        "answered",
        "no_response_expected",
        "unanswered",
        "unanswered_closed",
        "unanswered_open",
        "unanswered_lossy",
        "orphan_responses",
        "error_responses",
        "request_bytes",
        "response_bytes",
        "throttled",
        "throttle_ms",
        "untimed",
        "doubtful",
        "faults",
    )
    return {name: totals[name] for name in wanted}


def _traffic(summary: Summary) -> Plain:
    seen = to_plain(summary.connections)
    for name in ("server_rtt", "client_rtt"):
        seen[name] = plain_latency(getattr(summary.connections, name))
    return seen  # type: ignore[no-any-return]


def _finding(names: PageNames, finding: Finding) -> Plain:
    return {
        "name": finding.name,
        "severity": finding.severity.value,
        "title": finding.title,
        "count": finding.count,
        "from": names.since(finding.first_time_ns),
        "to": names.since(finding.last_time_ns),
        "means": finding.means,
        "next": finding.next,
        "omitted": finding.evidence_omitted,
        "evidence": [
            {
                "subject": row.subject,
                "detail": row.detail,
                "count": row.count,
                "from": names.since(row.first_time_ns),
                "to": names.since(row.last_time_ns),
                "place": names.location(row.place),
            }
            for row in finding.evidence
        ],
    }


def _api(names: PageNames, row: Plain) -> Plain:
    result = next((api.api_name for api in names.summary.apis if api.api_key == row["key"]), None)
    return row | {"name": result or "responses without request"}


def _version(names: PageNames, row: Any) -> Plain:
    return {
        "api": names.api(row.api_key),
        "version": row.api_version,
        "all": plain_figures(row.figures),
        "errors": row.figures.error_responses,
        "slowest": names.location(row.slowest),
    }


def _clients(names: PageNames) -> list[Plain]:
    software: dict[tuple[Any, ...], set[str]] = {}
    for row in names.summary.clients:
        if row.name.client_software_name:
            listed = " ".join(filter(None, (row.name.client_software_name, row.name.client_software_version)))
            software.setdefault((row.name.client_id, row.name.client_host), set()).add(listed)
    return [
        row | {"software": sorted(software.get((row["id"], row["host"]), ()))}
        for row in names.clients.rows(("id", "host"))
    ]


def _node(names: PageNames, row: Plain) -> int | None:
    return next(
        (
            broker.node_id
            for broker in names.summary.brokers
            if (broker.server_host, broker.server_port) == (row["host"], row["port"])
        ),
        None,
    )


def _error(names: PageNames, row: Any) -> Plain:
    return {
        "api": names.api(row.api_key),
        "code": row.error_code,
        "name": row.error_name,
        "exchanges": row.exchanges,
        "partitions": row.partitions,
        "first": names.location(row.first),
    }


def _fault(names: PageNames, row: Any) -> Plain:
    return {
        "api": names.api(row.api_key),
        "version": row.api_version,
        "shape": row.shape,
        "exchanges": row.exchanges,
        "first": names.location(row.first),
    }


def _topic(row: Any) -> Plain:
    codecs: dict[str, int] = {}
    for use in row.uses:
        for codec, volume in use.codecs.items():
            codecs[codec] = codecs.get(codec, 0) + volume
    return {
        "name": row.topic,
        "ids": row.topic_ids,
        "named": row.resolved,
        "partitions": row.partitions,
        "codecs": codecs,
        "service": {use.api_key: plain_latency(use.service) for use in row.uses if use.service},
    }
