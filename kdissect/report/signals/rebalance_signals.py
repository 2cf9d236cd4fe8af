"""The signal `rebalance_held_up`: a member learns of a rebalance, and does not join again for long.

A group of the classic protocol waits until all of its members have joined again. The library of a member that
is busy goes on with heartbeats, and each response says REBALANCE_IN_PROGRESS.
"""

from collections.abc import Iterator, Sequence

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.group_events import Group, Row, asked_ns, event_evidence, read_groups
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted
from kdissect.text import format_clock, format_duration

SECOND = 10**9
REBALANCE_KINDS = (
    SignalKind("rebalance_held_up", "a member does not join again", SignalCounts.OTHER, tells_first=True),
)
HELD_UP_NS, LEAST = 6 * SECOND, 3
"""A member joins again at its next poll, which is sooner than this."""

APART_NS = 7 * SECOND
"""Two rebalances have more than this between their heartbeats: members send one each 3 s."""


def rebalance_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about rebalances that wait for a member."""
    for group in read_groups(context):
        for events in group.clients.values():  # some send heartbeats and joins on two connections
            for told in _told(events):
                others = {row["client"] for row in group.events} - {told[0]["client"]}
                if others and len(told) >= LEAST and _span(told) >= HELD_UP_NS:
                    yield _signal(context, group, told, len(others))


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


def _signal(context: SignalContext, group: Group, told: Sequence[Row], others: int) -> Signal:
    client, begin, last = told[0]["client"], asked_ns(told[0]), asked_ns(told[-1])
    return make_signal(
        "rebalance_held_up",
        (SubjectKind.CLIENT, client),
        (begin, None if context.end_ns - last < APART_NS else last),
        f"{client} holds up the rebalance of group {group.name} since {format_clock(begin)}: "
        f"{counted(len(told), 'heartbeat')} told it to join again, and it did not for "
        f"{format_duration(last - begin)}, while {counted(others, 'other member')} waited",
        measures={"count": len(told), "held_up_ns": last - begin, "waiting": others},
        clients=[client],
        groups=[group.name],
        requests=len(told),
        evidence=[event_evidence(context, client, "REBALANCE_IN_PROGRESS", told)],
    )
