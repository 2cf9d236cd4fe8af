"""Signals about rebalances of groups of the classic protocol.

    rebalance_held_up     a member learns of a rebalance, and does not join again for long
    rebalances_by_topics  members join anew again and again, though nobody comes, leaves or is given up

A group of the classic protocol waits until all of its members have joined again. The library of a member that
is busy goes on with heartbeats, and each response says REBALANCE_IN_PROGRESS. A member whose topics get
other partitions, or whose pattern matches another topic, starts a rebalance by itself: nobody told it to.
"""

from collections.abc import Iterator, Sequence

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.group_events import (
    Group,
    Row,
    asked_between,
    asked_ns,
    event_evidence,
    is_join,
    read_groups,
    until_ns,
)
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration

SECOND = 10**9
REBALANCE_KINDS = (
    SignalKind("rebalance_held_up", "a member does not join again", SignalCounts.OTHER, tells_first=True),
    SignalKind("rebalances_by_topics", "members join anew by themselves", SignalCounts.OTHER),
)
HELD_UP_NS, LEAST = 6 * SECOND, 3
"""A member joins again at its next poll, which is sooner than this."""

APART_NS = 7 * SECOND
"""Two rebalances have more than this between their heartbeats: members send one each 3 s."""


STARTED_ALONE = 4
"""Rebalances that members start by themselves: one or two happen when they learn of their topics."""

OF_WORKERS = frozenset({"default", "compatible", "sessioned"})
"""Protocols of workers of Kafka Connect, which join anew when a connector or its tasks change."""

NAMED = 3


def rebalance_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about rebalances."""
    for group in context.shared(read_groups):
        started = _started_alone(group)
        if len(started) >= STARTED_ALONE:
            yield _by_topics(context, group, started)
        for events in group.clients.values():  # some send heartbeats and joins on two connections
            for told in _told(events):
                others = {row["client"] for row in group.events} - {told[0]["client"]}
                if others and len(told) >= LEAST and _span(told) >= HELD_UP_NS:
                    yield _signal(context, group, told, others)


def _told(events: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield heartbeats of a member that tell of one rebalance, until it joins again, or leaves."""
    told: list[Row] = []
    for row in events:
        tells = row["event"] == "error" and row["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
        if told and (not tells or asked_ns(row) - asked_ns(told[-1]) > APART_NS):
            yield told
            told = []
        if tells:
            told.append(row)
    if told:
        yield told


def _span(told: Sequence[Row]) -> int:
    return asked_ns(told[-1]) - asked_ns(told[0])


def _started_alone(group: Group) -> list[Row]:
    """Return the first join of each generation that a member started of which nothing was asked.

    It was a member already, nobody had left since the generation before, and no heartbeat told of it. One
    that follows a generation with another reason is left out: a cooperative group moves partitions in two.
    """
    generations: dict[int, list[Row]] = {}
    for row in group.events:
        if is_join(row) and row["generation"]:
            generations.setdefault(row["generation"], []).append(row)
    members: set[str | None] = set()  # several processes may have the name of one client
    started, complete_ns, moves = [], None, False
    for number in sorted(generations):
        joins = generations[number]
        first = min(joins, key=asked_ns)
        alone = False
        if complete_ns is not None and first["member_id"] in members:
            between = asked_between(group.events, complete_ns, asked_ns(first) - 1)
            alone = not any(row["event"] in ("leave", "error") or row["error_code"] for row in between)
        if alone and not moves and first["protocol"] not in OF_WORKERS:
            started.append(first)
        moves = complete_ns is not None and not alone
        members |= {row["member_id"] for row in joins}
        complete_ns = max(row["time_ns"] for row in joins)
    return started


def _by_topics(context: SignalContext, group: Group, started: Sequence[Row]) -> Signal:
    begin, last = asked_ns(started[0]), asked_ns(started[-1])
    clients = sorted({row["client"] for row in group.events})
    starters = sorted({row["client"] for row in started})
    return make_signal(
        "rebalances_by_topics",
        (SubjectKind.GROUP, group.name),
        (begin, until_ns(context, last)),
        f"group {group.name} rebalances again and again since {format_clock(begin)}: "
        f"{counted(len(started), 'time')} in {format_duration(last - begin)} a member joined anew by itself "
        f"({listed(starters, NAMED)}), though nobody had come, left or been given up",
        measures={"count": len(started), "lasted_ns": last - begin},
        clients=clients,
        groups=[group.name],
        requests=len(started),
        evidence=[event_evidence(context, group.name, "joined anew by itself", started)],
    )


def _signal(context: SignalContext, group: Group, told: Sequence[Row], others: set[str]) -> Signal:
    client, begin, last = told[0]["client"], asked_ns(told[0]), asked_ns(told[-1])
    return make_signal(
        "rebalance_held_up",
        (SubjectKind.CLIENT, client),
        (begin, None if context.end_ns - last < APART_NS else last),
        f"{client} holds up the rebalance of group {group.name} since {format_clock(begin)}: "
        f"{counted(len(told), 'heartbeat')} told it to join again, and it did not for "
        f"{format_duration(last - begin)}, while {counted(len(others), 'other member')} waited",
        measures={"count": len(told), "held_up_ns": last - begin, "waiting": len(others)},
        clients=[client, *others],
        groups=[group.name],
        requests=len(told),
        evidence=[event_evidence(context, client, "REBALANCE_IN_PROGRESS", told)],
    )
