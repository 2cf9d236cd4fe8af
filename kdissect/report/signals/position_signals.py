"""Signals about consumers that are stuck or fall behind, and about software that changed.

offset_repeated     a consumer fetches the same offset again and again
lag_grew            a consumer, or the offsets that its group commits, falls behind
software_changed    a client's software has another version from a moment on
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import COMMITTED, READS
from kdissect.report.wording import client_text, counted, software_text
from kdissect.text import format_clock, format_count, format_duration

Row = dict[str, Any]
SECOND = 10**9
POSITION_KINDS = (
    SignalKind("offset_repeated", "a consumer fetches one offset again and again", SignalCounts.ERRORS),
    SignalKind("lag_grew", "a consumer falls behind", SignalCounts.NOTHING),
    SignalKind("software_changed", "a client's software changed", SignalCounts.NOTHING),
)
REPEATED, REPEATED_NS = 4, 2 * SECOND
LAG_GREW, LAG_TIMES, LAG_STILL, LAG_NS = 300, 2, 0.9, 8 * SECOND
STARTED_NS = 6 * SECOND
"""A lag that is first seen this soon after its consumer began was there from its begin on."""

CHANGED_NS = 3 * SECOND
"""Software that is new in the first seconds of a capture may have been there before."""

ENDED_NS = 5 * SECOND
"""What was seen this shortly before the end of the capture lasts to its end."""


def position_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about positions and software."""
    facts = ClientFacts(context)
    yield from _repeated(context, facts)
    yield from _lags(context, facts)
    yield from _committed(context, facts)
    yield from _software(context)


def _until(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < ENDED_NS else last_ns


def _repeated(context: SignalContext, facts: ClientFacts) -> Iterator[Signal]:
    best: dict[tuple[str, str], Row] = {}
    for row in context.partial.table(READS).to_pylist():
        topic = context.topics.name(row["topic"], row["topic_id"])
        enough = row["exchanges"] >= REPEATED and row["last_ns"] - row["first_ns"] >= REPEATED_NS
        if row["offset"] is None or topic is None or not enough:
            continue
        key = client_text(row["client_id"], row["client_host"]), topic
        if key not in best or row["exchanges"] > best[key]["exchanges"]:
            best[key] = row
    for (client, topic), row in sorted(best.items()):
        count, begin, end = row["exchanges"], row["first_ns"], row["last_ns"]
        yield make_signal(
            "offset_repeated",
            (SubjectKind.CLIENT, client),
            (begin, _until(context, end)),
            f"{client} fetched {topic}-{row['partition']} from offset {format_count(row['offset'])} "
            f"{counted(count, 'time')} from {format_clock(begin)} for {format_duration(end - begin)}",
            measures={"count": count, "offset": row["offset"], "partition": row["partition"]},
            clients=[client],
            groups=sorted(facts.groups.get(client, ())),
            topics=[topic],
            requests=count,
        )


def _lags(context: SignalContext, facts: ClientFacts) -> Iterator[Signal]:
    by_client: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for lag in context.rules.lags:
        by_client[lag.client, lag.topic].append(lag)
    for (client, topic), lags in sorted(by_client.items()):
        before, after, most = (
            sum(getattr(lag, name) for lag in lags) for name in ("before", "after", "most")
        )
        begin, end = min(lag.first_ns for lag in lags), max(lag.last_ns for lag in lags)
        if _has_grown(before, after, most, end - begin):
            groups = sorted(facts.groups.get(client, ()))
            yield _lag(context, facts, client, groups, topic, (before, after), (begin, end), "reads")


def _has_grown(before: int, after: int, most: int, lasted_ns: int) -> bool:
    grew = after - before >= LAG_GREW and after >= LAG_TIMES * before
    return grew and after >= LAG_STILL * most and lasted_ns >= LAG_NS


def _lag(
    context: SignalContext,
    facts: ClientFacts,
    client: str,
    groups: Sequence[str],
    topic: str,
    lag: tuple[int, int],
    span: tuple[int, int],
    verb: str,
) -> Signal:
    before, after = lag
    since = facts.active_after(client, context.begin_ns - 1)
    begin = since if since is not None and span[0] - since < STARTED_NS else span[0]
    a_second = (after - before) * SECOND // max(span[1] - span[0], 1)
    group = f" (group {', '.join(groups)})" if groups else ""
    return make_signal(
        "lag_grew",
        (SubjectKind.CLIENT, client),
        (begin, _until(context, span[1])),
        f"{client}{group} {verb} topic {topic} more slowly than it is written: from {format_count(before)} "
        f"to {format_count(after)} records behind in {format_duration(span[1] - span[0])}, {a_second} more "
        "each second",
        measures={"before": before, "after": after, "per_second": a_second},
        clients=[client],
        groups=groups,
        topics=[topic],
    )


def _committed(context: SignalContext, facts: ClientFacts) -> Iterator[Signal]:
    """Yield the lag of committed offsets, for clients that fetch far ahead of what they process."""
    ends: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    commits: dict[tuple[str, str, str], dict[int, list[tuple[int, int]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in context.partial.table(COMMITTED).to_pylist():
        topic = context.topics.name(row["topic"], row["topic_id"])
        if topic is None or row["partition"] is None or row["offset"] is None:
            continue
        time = -row["order_ns"]
        if row["kind"] == "committed":
            client = client_text(row["client_id"], row["client_host"])
            commits[client, row["group_id"] or "?", topic][row["partition"]].append((time, row["offset"]))
        else:
            ends[topic, row["partition"]].append((time, row["end_offset"]))
    for (client, group, topic), partitions in sorted(commits.items()):
        first, last = [], []
        for number, found in partitions.items():
            known = sorted(ends.get((topic, number), ()))
            if known:
                found.sort()
                first.append((found[0][0], max(_end_at(known, found[0][0]) - found[0][1], 0)))
                last.append((found[-1][0], max(_end_at(known, found[-1][0]) - found[-1][1], 0)))
        if first:
            before, after = sum(lag for _, lag in first), sum(lag for _, lag in last)
            begin, end = min(time for time, _ in first), max(time for time, _ in last)
            if _has_grown(before, after, after, end - begin):
                yield _lag(context, facts, client, [group], topic, (before, after), (begin, end), "processes")


def _end_at(known: Sequence[tuple[int, int]], time_ns: int) -> int:
    """Return the end of the log at a time: the last that was seen before, or the first that was seen."""
    earlier = [end for time, end in known if time <= time_ns]
    return max(earlier) if earlier else known[0][1]


STEM = re.compile(r"[-_.]?\d+$")


def _software(context: SignalContext) -> Iterator[Signal]:
    columns = context.facts.columns
    names = ("client_id", "client_host", "client_software_name", "client_software_version", "first_time_ns")
    services: dict[tuple[str, str], dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    rows = zip(*(columns.arrow(name).to_pylist() for name in names), strict=True)
    for client_id, host, software, version, first in rows:
        if client_id and software and version and first is not None:
            stem = STEM.sub("", client_id) or client_id
            services[stem, software][version].append((first, client_text(client_id, host)))
    for (stem, software), versions in sorted(services.items()):
        ordered = sorted(versions.items(), key=lambda item: min(item[1]))
        for (old, before), (new, after) in pairwise(ordered):
            begin = min(after)[0]
            if begin - context.begin_ns < CHANGED_NS or max(before)[0] > max(after)[0]:
                continue
            clients = sorted({client for _, client in after})
            yield make_signal(
                "software_changed",
                (SubjectKind.CLIENT, stem),
                (begin, None),
                f"{stem} went from {software_text(software, old)} to {new} at {format_clock(begin)} "
                f"({counted(len(clients), 'client')})",
                measures={"clients": len(clients)},
                clients=clients,
            )
