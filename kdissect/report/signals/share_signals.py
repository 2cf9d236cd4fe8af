"""The signal `records_given_back`: members of a share group (KIP-932) do not process the records they get.

A member that ends gives back what it has, once, and others process it. So records count that are given back
for some seconds and are handed out for the third time, or of which most are refused for good.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from kdissect.report.model.findings import Evidence, Location
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import SHARES
from kdissect.report.wording import counted, listed
from kdissect.tables.share_acknowledgements import ACCEPT, HANDED_OUT, REJECT, RELEASE
from kdissect.text import format_clock, format_count

Row = dict[str, Any]
SECOND = 10**9
SHARE_KINDS = (
    SignalKind("records_given_back", "members of a share group do not process records", SignalCounts.NOTHING),
)
LEAST_RECORDS, LEAST_NS = 10, 3 * SECOND
"""Fewer records, or over a shorter time, are those of a member that ends."""

DELIVERIES = 3
"""A record that is handed out so often was given back twice: that is no restart of one member."""

REFUSED_SHARE = 0.5
"""Some refused records are what the type is for; such a part of all is trouble."""

NAMED = 3
ENDED_NS = 5 * SECOND
"""A signal that was seen this shortly before the end of the capture lasts to its end."""


def share_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about share groups."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in context.rows(SHARES):
        topic = context.topics.name(None, row["topic_id"])
        if row["group_id"] is not None and topic is not None:
            found[row["group_id"], topic].append(row)
    for (group, topic), rows in sorted(found.items()):
        for kind in (RELEASE, REJECT):
            failing = _failing(rows, kind)
            if failing and _is_trouble(rows, failing, kind):
                yield _signal(context, group, topic, rows, failing)


def _failing(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return the rows of that kind of the members that do so for some seconds."""
    by_client: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] == kind:
            by_client[row["client_id"], row["client_host"]].append(row)
    return [row for own in by_client.values() if _lasts(own) for row in own]


def _lasts(rows: Sequence[Row]) -> bool:
    begin, last = _span(rows)
    return sum(row["records"] for row in rows) >= LEAST_RECORDS and last - begin >= LEAST_NS


def _span(rows: Sequence[Row]) -> tuple[int, int]:
    return min(row["first_ns"] for row in rows), max(row["last_ns"] for row in rows)


def _during(rows: Sequence[Row], failing: Sequence[Row], kind: str) -> list[Row]:
    """Return rows of a kind from the first failure on."""
    begin = _span(failing)[0]
    return [row for row in rows if row["kind"] == kind and row["last_ns"] >= begin]


def _records(rows: Sequence[Row]) -> int:
    return sum(row["records"] for row in rows)


def _deliveries(rows: Sequence[Row], failing: Sequence[Row]) -> int:
    return max((row["deliveries"] for row in _during(rows, failing, HANDED_OUT)), default=0)


def _is_trouble(rows: Sequence[Row], failing: Sequence[Row], kind: str) -> bool:
    if kind == RELEASE:
        return _deliveries(rows, failing) >= DELIVERIES
    refused, accepted = _records(failing), _records(_during(rows, failing, ACCEPT))
    return refused >= REFUSED_SHARE * (refused + accepted)


def _signal(
    context: SignalContext, group: str, topic: str, rows: Sequence[Row], failing: Sequence[Row]
) -> Signal:
    begin, last = _span(failing)
    clients = sorted({row["client"] for row in failing})
    subject = (SubjectKind.CLIENT, clients[0]) if len(clients) == 1 else (SubjectKind.GROUP, group)
    records, accepted = _records(failing), _records(_during(rows, failing, ACCEPT))
    requests, deliveries = sum(row["messages"] for row in failing), _deliveries(rows, failing)
    given_back = failing[0]["kind"] == RELEASE
    does = ("gives back", "give back") if given_back else ("refuses", "refuse")
    again = " again and again" if given_back else " for good"
    kept = format_count(accepted) if accepted else "none"
    often = f"; one record is delivered up to {deliveries} times" if given_back else ""
    return make_signal(
        "records_given_back",
        subject,
        (begin, None if context.end_ns - last < ENDED_NS else last),
        f"{listed(clients, NAMED)} (share group {group}) {does[len(clients) > 1]} records of "
        f"{_where(topic, failing)}{again} since {format_clock(begin)}: {counted(records, 'record')} in "
        f"{counted(requests, 'acknowledgement')}, while the group accepts {kept}{often}",
        measures={"count": records, "accepted": accepted, "deliveries": deliveries},
        clients=clients,
        groups=[group],
        topics=[topic],
        requests=requests,
        evidence=[_evidence(context, topic, row) for row in _most(failing)],
    )


def _where(topic: str, failing: Sequence[Row]) -> str:
    partitions = sorted({row["partition"] for row in failing if row["partition"] is not None})
    return f"{topic}-{partitions[0]}" if len(partitions) == 1 else f"topic {topic}"


def _most(rows: Sequence[Row]) -> list[Row]:
    """Return the first row of each client and partition, those with the most records in front."""
    first: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: row["first_ns"]):
        first.setdefault((row["client_id"], row["client_host"], row["partition"]), row)
    return sorted(first.values(), key=lambda row: -row["records"])


def _evidence(context: SignalContext, topic: str, row: Row) -> Evidence:
    subject = row["client"]
    return Evidence(
        subject=subject,
        detail=f"{topic}-{row['partition']}" if row["partition"] is not None else topic,
        count=row["messages"],
        first_time_ns=row["first_ns"],
        last_time_ns=row["last_ns"],
        place=Location(
            time_ns=row["first_ns"],
            connection=row["connection"],
            client_id=row["client_id"],
            topic=topic,
            partition=row["partition"],
            detail=None,
            response_time_ns=None,
            **{name: row[name] for name in ("capture_file", "request_packet", "response_packet")},
            **context.end_of(row["connection"]),
        ),
    )
