"""Signals about groups: members that did not poll, were lost, start again and again, or share an id.

    poll_exceeded       a member left its group and joined it again on the same connection
    member_lost         a member was silent for its session timeout, or ended without leaving
    member_restarts     one client joins a group as a new member again and again
    instance_fenced     a member was fenced by another one with its group.instance.id

They are made of the events of groups, which are dated to the packet.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.findings import Evidence, Location
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts, MemberLine
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.timeline_tables import GROUP_STEPS
from kdissect.report.wording import client_text, counted
from kdissect.text import format_clock, format_duration

Row = dict[str, Any]
SECOND, NS_PER_MS = 10**9, 10**6
GROUP_KINDS = (
    SignalKind("poll_exceeded", "a member did not poll in time", SignalCounts.ERRORS),
    SignalKind("member_lost", "a member was silent, or ended without leaving", SignalCounts.ERRORS),
    SignalKind("member_restarts", "a client joins as a new member again and again", SignalCounts.ERRORS),
    SignalKind("instance_fenced", "two members have one group.instance.id", SignalCounts.ERRORS),
)
POLL_REASON = "poll timeout"
ABSENT_NS = SECOND // 4
"""A client that only changes its subscription joins again at once."""

RESTARTS = 3
SILENT_SHARE, SILENT_NS = 0.4, 2 * SECOND
"""A member that sent nothing for so much of its session timeout, and so long, was not merely idle."""

DEFAULT_SESSION_MS = 45_000
UNKNOWN_SESSION_NS, EXPIRES_SOONEST = 4 * SECOND, 0.6
"""A group notices a lost member when its session timeout is over; this soon if the timeout is not known."""

LATE_NS = 8 * SECOND
"""The others hear of it with their next heartbeat, and on a busy machine later."""

HEARTBEAT_NS = 5 * SECOND
"""Members send heartbeats at least this often."""

FENCED = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
PUT_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH)


class Group(NamedTuple):
    """The events of one group in the order of time, and those of each client in it."""

    name: str
    events: list[Row]
    clients: dict[str, list[Row]]

    def generations(self) -> int:
        """Return how many generations the joins of the capture show."""
        return len({row["generation"] for row in self.events if _joined(row) and row["generation"]})


def group_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about groups."""
    facts = ClientFacts(context)
    for group in _groups(context):
        for client, events in sorted(group.clients.items()):
            yield from _poll_exceeded(context, group, client, events)
            yield from _restarts(context, group, client, events)
            yield from _put_out(context, facts, group, client, events)
        yield from _ended(context, facts, group)
        yield from _fenced(context, facts, group)


def _groups(context: SignalContext) -> list[Group]:
    rows = [row for row in context.partial.table(GROUP_STEPS).to_pylist() if row["group_id"] is not None]
    rows.sort(key=lambda row: (row["asked_ns"] or row["time_ns"], row["ordinal"]))
    groups: dict[str, Group] = {}
    for row in rows:
        row["client"] = client_text(row["client_id"], row["client_host"])
        group = groups.setdefault(row["group_id"], Group(row["group_id"], [], defaultdict(list)))
        group.events.append(row)
        group.clients[row["client"]].append(row)
    return [groups[name] for name in sorted(groups)]


def _joined(row: Row) -> bool:
    return bool(row["event"] == "join" and not row["error_code"])


def _asked(row: Row) -> int:
    return int(row["asked_ns"] or row["time_ns"])


def _evidence(context: SignalContext, subject: str, detail: str, rows: Sequence[Row]) -> Evidence:
    first = rows[0]
    ends = context.end_of(first["connection"])
    return Evidence(
        subject=subject,
        detail=detail,
        count=len(rows),
        first_time_ns=_asked(first),
        last_time_ns=rows[-1]["time_ns"],
        place=Location(
            time_ns=_asked(first),
            capture_file=first["capture_file"],
            request_packet=first["request_packet"],
            response_packet=first["response_packet"],
            connection=first["connection"],
            client_id=first["client_id"],
            topic=None,
            partition=None,
            detail=None,
            request_time_ns=first["asked_ns"],
            response_time_ns=first["time_ns"] if first["response_packet"] is not None else None,
            **ends,
        ),
    )


def _signal(
    context: SignalContext,
    kind: str,
    group: Group,
    client: str,
    span: tuple[int, int | None],
    sentence: str,
    rows: Sequence[Row],
    **measures: int,
) -> Signal:
    others = sorted(set(group.clients) - {client})
    return make_signal(
        kind,
        (SubjectKind.CLIENT, client),
        span,
        sentence,
        measures={"count": len(rows), "members": len(group.clients), **measures},
        clients=[client, *others],
        groups=[group.name],
        requests=len(rows),
        evidence=[_evidence(context, client, sentence, rows)],
    )


def _poll_exceeded(
    context: SignalContext, group: Group, client: str, events: Sequence[Row]
) -> Iterator[Signal]:
    leaves, absences, limit_ms = [], [], 0
    for at, row in enumerate(events):
        if row["event"] != "leave" or row["error_code"]:
            continue
        again = [one for one in events[at + 1 :] if one["event"] == "join"]
        same = [one for one in again if one["connection"] == row["connection"]]
        told = POLL_REASON in (row["reason"] or "")
        if told or (same and _asked(same[0]) - _asked(row) >= ABSENT_NS):
            leaves.append(row)
            absences.append(_asked(again[0]) - _asked(row) if again else 0)
    limit_ms = max((row["rebalance_timeout_ms"] or 0 for row in events), default=0)
    if not leaves:
        return
    begin = _asked(leaves[0])
    yield _signal(
        context,
        "poll_exceeded",
        group,
        client,
        (begin, _until(context, leaves[-1]["time_ns"])),
        f"{client} left group {group.name} {counted(len(leaves), 'time')} from {format_clock(begin)} and "
        f"joined it again up to {format_duration(max(absences))} later, as clients do that exceed "
        f"max.poll.interval.ms{f' ({format_duration(limit_ms * NS_PER_MS)})' if limit_ms else ''}",
        leaves,
        absent_ns=max(absences),
        limit_ms=limit_ms,
    )


def _until(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < 10 * SECOND else last_ns


def _restarts(context: SignalContext, group: Group, client: str, events: Sequence[Row]) -> Iterator[Signal]:
    """Yield clients whose members join and end within the capture, one after the other.

    Members that live side by side are several of one name; members that stay are a deployment.
    """
    seen: set[str] = set()
    lines: set[int] = set()
    starts = []
    for row in events:
        if _joined(row) and row["member_id"] is not None and row["member_id"] not in seen:
            seen.add(row["member_id"])
            if row["connection"] not in lines and row["instance_id"] is None:
                starts.append(row)
            lines.add(row["connection"])
    ends = sorted(_end_of(context, events, row) for row in starts)
    short = sum(end < _asked(starts[-1]) for end in ends)
    if len(starts) < RESTARTS or short < RESTARTS - 1:
        return
    begin = _asked(starts[0])
    rebalances = group.generations()
    yield _signal(
        context,
        "member_restarts",
        group,
        client,
        (begin, _until(context, starts[-1]["time_ns"])),
        f"{client} joined group {group.name} as a new member {counted(len(starts), 'time')} from "
        f"{format_clock(begin)} for {format_duration(_asked(starts[-1]) - begin)}; the group had "
        f"{counted(rebalances, 'generation')}",
        starts,
        generations=rebalances,
        lasted_ns=_asked(starts[-1]) - begin,
    )


def _session_ms(events: Sequence[Row]) -> int:
    return max((row["session_timeout_ms"] or 0 for row in events), default=0) or DEFAULT_SESSION_MS


def _put_out(
    context: SignalContext, facts: ClientFacts, group: Group, client: str, events: Sequence[Row]
) -> Iterator[Signal]:
    """Yield members that were silent, and heard afterwards that the group went on without them."""
    session_ns = _session_ms(events) * NS_PER_MS
    for row in events:
        if row["error_code"] not in PUT_OUT or row["event"] == "leave":
            continue
        last = facts.active_before(client, _asked(row) - SECOND // 5)
        if last is None or _asked(row) - last < max(SILENT_SHARE * session_ns, SILENT_NS):
            continue
        silent = format_duration(_asked(row) - last)
        yield _signal(
            context,
            "member_lost",
            group,
            client,
            (last, _asked(row)),
            f"{client} sent nothing from {format_clock(last)} for {silent}, and group {group.name} went on "
            f"without it ({row['error_name']})",
            [row],
            silent_ns=_asked(row) - last,
            session_ms=session_ns // NS_PER_MS,
            is_back=1,
        )
        return


def _end_of(context: SignalContext, events: Sequence[Row], join: Row) -> int:
    """Return when a member left, or when the connection on which it joined was last seen."""
    line = join["connection"]
    leaves = (_asked(row) for row in events if row["event"] == "leave" and row["connection"] == line)
    left = min((time for time in leaves if time > _asked(join)), default=context.end_ns)
    return min(left, context.last_seen(line))


def _ended(context: SignalContext, facts: ClientFacts, group: Group) -> Iterator[Signal]:
    """Yield members whose heartbeats end without a leave, after which the others rebalance."""
    known_ms = max((row["session_timeout_ms"] or 0 for row in group.events), default=0)
    session_ns = (known_ms or DEFAULT_SESSION_MS) * NS_PER_MS
    soonest_ns = EXPIRES_SOONEST * session_ns if known_ms else UNKNOWN_SESSION_NS
    lines = facts.member_lines.get(group.name, [])
    for line in lines:
        ended = context.last_seen(line.connection)
        if ended - line.last_ns > HEARTBEAT_NS or context.closed_by_server(line.row):
            continue
        if _left(group, line, ended) or any(_succeeds(other, line, ended) for other in lines):
            continue
        noticed = [
            row
            for row in group.events
            if row["connection"] != line.connection
            and (row["event"] == "join" or row["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS)
            and soonest_ns <= _asked(row) - line.last_ns <= session_ns + LATE_NS
        ]
        if noticed:
            yield _expired(context, group, line, ended, noticed[0], session_ns)


def _left(group: Group, line: MemberLine, ended: int) -> bool:
    """Return whether a member left in order, is static, or goes on by another connection."""
    for row in group.events:
        own = row["connection"] == line.connection
        if own and row["instance_id"] is not None:
            return True
        near = row["client"] == line.client and abs(_asked(row) - ended) < HEARTBEAT_NS
        if row["event"] == "leave" and (near or (own and _asked(row) >= line.last_ns)):
            return True
    return False


def _succeeds(other: MemberLine, line: MemberLine, ended: int) -> bool:
    return other.client == line.client and other.first_ns >= ended - SECOND


def _expired(
    context: SignalContext, group: Group, line: MemberLine, ended: int, noticed: Row, session_ns: int
) -> Signal:
    client, at = line.client, _asked(noticed)
    return _signal(
        context,
        "member_lost",
        group,
        client,
        (ended, at),
        f"{client} ended at {format_clock(ended)} without leaving group {group.name}, which noticed "
        f"{format_duration(at - ended)} later",
        [noticed],
        silent_ns=at - ended,
        session_ms=session_ns // NS_PER_MS,
        is_back=0,
    )


def _fenced(context: SignalContext, facts: ClientFacts, group: Group) -> Iterator[Signal]:
    by_instance: dict[str, list[Row]] = defaultdict(list)
    for row in group.events:
        if row["instance_id"] is not None:
            by_instance[row["instance_id"]].append(row)
    for instance, rows in sorted(by_instance.items()):
        fenced = [row for row in rows if row["error_code"] in FENCED]
        if not fenced:
            continue
        joins = [row for row in rows if row["event"] == "join" and _asked(row) < fenced[0]["time_ns"]]
        began = joins[-1] if joins else fenced[0]
        begin = facts.connected(began["client"], _asked(began))
        clients = sorted({row["client"] for row in rows})
        where = counted(len({row["connection"] for row in rows if row["event"] == "join"}), "connection")
        yield make_signal(
            "instance_fenced",
            (SubjectKind.GROUP, group.name),
            (begin, _until(context, fenced[-1]["time_ns"])),
            f"group.instance.id {instance} of group {group.name} was taken over "
            f"{counted(len(fenced), 'time')} from {format_clock(begin)}: members on "
            f"{where} ({', '.join(clients[:3])}) fenced each other",
            measures={"count": len(fenced), "clients": len(clients)},
            clients=clients,
            groups=[group.name],
            requests=len(fenced),
            evidence=[_evidence(context, instance, f"fenced: group.instance.id {instance}", fenced)],
        )
