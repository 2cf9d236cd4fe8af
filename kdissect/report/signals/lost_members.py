"""The signal `member_lost`: a member was silent, was removed, or ended without leaving its group.

A member that hung, or was cut off, hears that its group went on without it when it is back. The others learn
that a member died when its session is over. If it was alone, or the capture ends sooner, what it read is
written on and read by nobody.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools
from kdissect.protocol.api_keys import OFFSET_COMMITS
from kdissect.protocol.error_codes import ErrorCode, error_name
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.findings.evidence import observed
from kdissect.report.model.findings import Evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.group_events import (
    DEFAULT_SESSION_MS,
    NS_PER_MS,
    SECOND,
    Group,
    Row,
    asked_between,
    asked_ns,
    event_evidence,
    member_signal,
    session_ms,
)
from kdissect.report.signals.log_positions import LogPositions
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.member_lines import MemberLine, MemberLines
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted
from kdissect.text import format_clock, format_count, format_duration

SILENT_SHARE, SILENT_NS = 0.4, 2 * SECOND
"""A member that sent nothing for so much of its session timeout, and so long, was not merely idle."""

UNKNOWN_SESSION_NS, EXPIRES_SOONEST = 4 * SECOND, 0.6
"""A group notices a lost member when its session timeout is over; this soon if the timeout is not known."""

LATE_NS = 8 * SECOND
"""The others hear of it with their next heartbeat, and on a busy machine later."""

HEARTBEAT_NS = 5 * SECOND
"""Members send heartbeats at least this often."""

UNREAD_NS = 5 * SECOND
"""Partitions that nobody reads for this long, while they are written, have lost their reader."""

REMOVED = tuple(map(error_name, (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)))
PUT_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH)


def lost_members(context: SignalContext, facts: ClientFacts, group: Group) -> Iterator[Signal]:
    """Yield the members that a group lost."""
    for client, events in sorted(group.clients.items()):
        yield from _put_out(context, facts, group, client, events)
    yield from _ended(context, facts, group)


class PutOut(NamedTuple):
    """A request by which a member hears that it is none any more."""

    time_ns: int
    error: str
    evidence: Evidence


def _put_out(
    context: SignalContext, facts: ClientFacts, group: Group, client: str, events: Sequence[Row]
) -> Iterator[Signal]:
    """Yield a member that was silent, and heard afterwards that the group went on without it."""
    session_ns = (session_ms(events) or DEFAULT_SESSION_MS) * NS_PER_MS
    silences: list[tuple[int, PutOut]] = []
    refusals = _refusals(context, group, client, events)
    for one in refusals:
        last = facts.active_before(client, one.time_ns - SECOND // 5)
        if last is None or one.time_ns - last < max(SILENT_SHARE * session_ns, SILENT_NS):
            continue
        if not silences or last > silences[-1][1].time_ns:
            silences.append((last, one))
    if not silences:
        yield from _removed(facts, group, client, refusals)
        return
    last, first = silences[0]
    silent = format_duration(first.time_ns - last)
    again = f"; this happened {counted(len(silences), 'time')}" if len(silences) > 1 else ""
    yield make_signal(
        "member_lost",
        (SubjectKind.CLIENT, client),
        (last, silences[-1][1].time_ns),
        f"{client} sent nothing from {format_clock(last)} for {silent}, and group {group.name} went on "
        f"without it ({first.error}){again}",
        measures={
            "count": len(silences),
            "silent_ns": first.time_ns - last,
            "session_ms": session_ns // NS_PER_MS,
            "is_back": 1,
        },
        clients=group.clients,
        groups=[group.name],
        requests=len(silences),
        evidence=[one.evidence for _, one in silences],
    )


def _removed(facts: ClientFacts, group: Group, client: str, refusals: Sequence[PutOut]) -> Iterator[Signal]:
    """Yield a client of several processes, one of which was removed: the others hide that it was silent."""
    removed = [one for one in refusals if one.error in REMOVED]
    every = facts.member_lines.get(group.name)
    if not removed or every is None:
        return
    own = every.only(every.clients.equal(client))
    if not own.overlap():
        return
    begin = removed[0].time_ns
    yield make_signal(
        "member_lost",
        (SubjectKind.CLIENT, client),
        (begin, removed[-1].time_ns),
        f"One of {counted(len(own.row), 'member')} of group {group.name} that are named {client} was removed "
        f"before {format_clock(begin)} ({removed[0].error}), as one whose heartbeats stop is",
        measures={"count": len(removed), "is_back": 1},
        clients=group.clients,
        groups=[group.name],
        requests=len(removed),
        evidence=[one.evidence for one in removed],
    )


def _refusals(context: SignalContext, group: Group, client: str, events: Sequence[Row]) -> list[PutOut]:
    """Return refused heartbeats, joins and commits of a client, in the order of time."""
    detail = f"not a member of group {group.name} any more"
    found = [
        PutOut(asked_ns(row), row["error_name"], event_evidence(context, client, detail, [row]))
        for row in events
        if row["error_code"] in PUT_OUT and row["event"] != "leave"
    ]
    commits = [
        error
        for error in context.rules.errors(PUT_OUT)
        if error.api_key in OFFSET_COMMITS and error.group_id == group.name and error.client == client
    ]
    found += [PutOut(one.first_ns, one.error, observed(client, detail, [one])) for one in commits]
    return sorted(found, key=lambda one: one.time_ns)


def _ended(context: SignalContext, facts: ClientFacts, group: Group) -> Iterator[Signal]:
    """Yield members whose heartbeats end without a leave: the others rebalance, or nobody reads on."""
    lines = facts.member_lines.get(group.name)
    if lines is None:
        return
    known_ms = session_ms(group.events)
    session_ns = (known_ms or DEFAULT_SESSION_MS) * NS_PER_MS
    soonest_ns = ceil(EXPIRES_SOONEST * session_ns) if known_ms else UNKNOWN_SESSION_NS
    lines = lines.only(_may_be_lost(context, lines, soonest_ns))
    ends = context.connections.closed_ns[lines.row].tolist()
    for line, ended in zip(lines.lines(), ends, strict=True):
        if _left(group, line, ended):
            continue
        latest_ns = line.last_ns + session_ns + LATE_NS
        noticed = [
            row
            for row in asked_between(group.events, line.last_ns + soonest_ns, latest_ns)
            if row["connection"] != line.connection
            and (row["event"] in ("join", "epoch") or row["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS)
        ]
        instances = _instances(group, line)
        if noticed and not _is_back(group, instances, ended, asked_ns(noticed[0])):
            yield _expired(context, group, line, ended, noticed[0], session_ns)
        elif not instances:
            yield from _unread(context, facts, group, line, ended)


def _may_be_lost(context: SignalContext, lines: MemberLines, soonest_ns: int) -> Bools:
    """Return which members ended with their heartbeats, by their own side, and did not begin anew.

    Nobody can tell whether a heartbeat that the snap length has cut was a leave.
    """
    connections, rows = context.connections, lines.row
    ended = connections.closed_ns[rows]
    is_noticed = context.end_ns >= np.minimum(lines.last_ns + soonest_ns, ended + UNREAD_NS)
    is_cut = lines.leave_by_heartbeat & (context.facts.columns.ints("cut_bytes")[rows] > 0)
    is_silent = ended - lines.last_ns > HEARTBEAT_NS
    closed_by_server = connections.ends[rows] & connections.by_server[rows]
    begins_anew = lines.latest_begins >= ended - SECOND
    lost: Bools = is_noticed & ~(is_cut | is_silent | closed_by_server | begins_anew)
    return lost


def _instances(group: Group, line: MemberLine) -> set[str]:
    """Return the instance ids of the static members of a connection.

    A static member does not leave when it ends (KIP-345): it may be back within its session.
    """
    rows = group.connections.get(line.connection, [])
    return {row["instance_id"] for row in rows if row["instance_id"] is not None}


def _is_back(group: Group, instances: set[str], ended: int, noticed_ns: int) -> bool:
    """Return whether a static member joins again before its group notices that it ended."""
    rows = asked_between(group.events, ended, noticed_ns)
    return any(row["instance_id"] in instances for row in rows if row["event"] in ("join", "epoch"))


def _left(group: Group, line: MemberLine, ended: int) -> bool:
    """Return whether a member left in order, or goes on by another connection."""
    own = group.connections.get(line.connection, [])
    client = group.clients.get(line.client, [])
    near = asked_between(client, ended - HEARTBEAT_NS + 1, ended + HEARTBEAT_NS - 1)
    late = (row for row in own if asked_ns(row) >= line.last_ns)
    return any(row["event"] == "leave" for row in (*near, *late))


def _expired(
    context: SignalContext, group: Group, line: MemberLine, ended: int, noticed: Row, session_ns: int
) -> Signal:
    client, at = line.client, asked_ns(noticed)
    left = "the records that it had were locked" if line.shares else "nobody read its partitions"
    return member_signal(
        context,
        "member_lost",
        group,
        client,
        (ended, at),
        f"{client} ended at {format_clock(ended)} without leaving group {group.name}, which noticed "
        f"{format_duration(at - ended)} later: {left} until then",
        [noticed],
        silent_ns=at - ended,
        session_ms=session_ns // NS_PER_MS,
        is_back=0,
    )


def _unread(
    context: SignalContext, facts: ClientFacts, group: Group, line: MemberLine, ended: int
) -> Iterator[Signal]:
    """Yield a member that ended while its group had not noticed it, if what it read is read by nobody."""
    later = facts.active_after(line.client, ended + SECOND)
    if later is not None or context.end_ns - ended < UNREAD_NS:
        return
    left = context.shared(LogPositions).left_unread(line.client, group.name, ended)
    records = sum(left.values())
    if not records:
        return
    topics = sorted({topic for topic, _ in left})
    verb = "ended" if context.is_closed(line.connection) else "sent nothing any more from"
    when = f"at {format_clock(ended)}" if verb == "ended" else format_clock(ended)
    yield make_signal(
        "member_lost",
        (SubjectKind.CLIENT, line.client),
        (ended, None),
        f"{line.client} {verb} {when} without leaving group {group.name}; nobody has read its "
        f"{counted(len(left), 'partition')} of topic {', '.join(topics)} since, while "
        f"{format_count(records)} records were written",
        measures={"silent_ns": context.end_ns - ended, "unread": records, "is_back": 0},
        clients=[line.client],
        groups=[group.name],
        topics=topics,
        requests=1,
        evidence=[
            chosen_evidence(
                context.rules,
                line.client,
                f"the last heartbeat for group {group.name} at {format_clock(line.last_ns)}",
                np.array([line.row]),
            )
        ],
    )
