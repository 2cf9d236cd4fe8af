"""Signals about groups: members that did not poll, start again and again, share an id, or were lost.

    poll_exceeded       a member left its group, and its client stayed connected or joined again
    member_restarts     one client joins a group as a new member again and again
    instance_fenced     a member was displaced by another one with its group.instance.id
    member_lost         a member was silent or removed, or ended without leaving (`lost_members`)

They are made of the events of groups, which are dated to the packet.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kdissect.protocol.api_keys import EPOCH_HEARTBEATS
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts, stem_of
from kdissect.report.signals.group_events import (
    NS_PER_MS,
    SECOND,
    Group,
    Row,
    asked_ns,
    end_of_member,
    event_evidence,
    is_join,
    member_signal,
    read_groups,
    unread_members,
    until_ns,
)
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.lost_members import lost_members
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted
from kdissect.text import format_clock, format_duration

GROUP_KINDS = (
    SignalKind("poll_exceeded", "a member did not poll in time", SignalCounts.OTHER),
    SignalKind("member_lost", "a member was silent or removed, or ended without leaving", SignalCounts.OTHER),
    SignalKind("member_restarts", "a client joins as a new member again and again", SignalCounts.OTHER),
    SignalKind("instance_fenced", "two members have one group.instance.id", SignalCounts.OTHER),
)
POLL_REASON = "poll timeout"
ABSENT_NS = SECOND // 4
"""A client that only changes its subscription joins again at once; with KIP-848 it need not leave first."""

LEFT_EPOCH = -1
"""The member epoch of a heartbeat by which a member leaves (KIP-848)."""

STAYED_NS = 5 * SECOND
"""A client that leaves since it ends closes its connections sooner than this."""

RESTARTS = 3
FENCED = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
DISPLACED = (*FENCED, ErrorCode.UNKNOWN_MEMBER_ID)
"""Heartbeats before version 3 name no instance: a member that was displaced is then unknown."""

NAMED = 3


def group_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about groups."""
    facts = context.shared(ClientFacts)
    for group in context.shared(read_groups):
        for client, events in sorted(group.clients.items()):
            yield from _poll_exceeded(context, facts, group, client, events)
        restarts = [
            signal
            for client, events in sorted(group.clients.items())
            for signal in _restarts(context, group, client, events)
        ]
        yield from restarts or _restarts_under_new_names(context, group)
        yield from lost_members(context, facts, group)
        yield from _fenced(context, facts, group)
    for group in unread_members(context):
        for client, events in group.clients.items():
            yield from _poll_exceeded(context, facts, group, client, events)


def _poll_exceeded(
    context: SignalContext, facts: ClientFacts, group: Group, client: str, events: Sequence[Row]
) -> Iterator[Signal]:
    leaves, absences, admitted = [], [], False
    for row, again, same in leaves_and_joins(events):
        told = POLL_REASON in (row["reason"] or "")
        admitted = admitted or told
        stayed = not again and _stays(context, facts, client, row)
        least = 0 if row["api_key"] in EPOCH_HEARTBEATS else ABSENT_NS
        if told or stayed or (same and asked_ns(same) - asked_ns(row) >= least):
            leaves.append(row)
            absences.append((asked_ns(again) if again else context.end_ns) - asked_ns(row))
    if not leaves:
        return
    limit_ms = max((row["rebalance_timeout_ms"] or 0 for row in events), default=0)
    begin = asked_ns(leaves[0])
    is_back = any(row["event"] == "join" for row in events if asked_ns(row) > asked_ns(leaves[-1]))
    absent = format_duration(max(absences))
    back = f"joined it again up to {absent} later" if is_back else f"stayed away for up to {absent}"
    limit = f" ({format_duration(limit_ms * NS_PER_MS)})" if limit_ms else ""
    yield member_signal(
        context,
        "poll_exceeded",
        group,
        client,
        (begin, until_ns(context, leaves[-1]["time_ns"])),
        f"{client} {'took' if admitted else 'probably took'} longer than max.poll.interval.ms{limit} between "
        f"two polls: it left {group.text} {counted(len(leaves), 'time')} from {format_clock(begin)} "
        f"and {back}",
        leaves,
        absent_ns=max(absences),
        limit_ms=limit_ms,
    )


def leaves_and_joins(events: Sequence[Row]) -> list[tuple[Row, Row | None, Row | None]]:
    """Return each leave with the next join, and the next join on its connection; None if there is none.

    One pass from the end: a client that leaves thousands of times has as many events behind each leave.
    """
    found: list[tuple[Row, Row | None, Row | None]] = []
    again: Row | None = None
    by_connection: dict[int, Row] = {}
    for row in reversed(events):
        if _is_leave(row):
            found.append((row, again, by_connection.get(row["connection"])))
        if row["event"] == "join":
            again = by_connection[row["connection"]] = row
    found.reverse()
    return found


def _is_leave(row: Row) -> bool:
    """Return whether a member leaves, or (KIP-848) wants to and hears that it was removed before."""
    if row["api_key"] in EPOCH_HEARTBEATS and row["event"] == "error":
        return bool(row["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID and row["generation"] == LEFT_EPOCH)
    return bool(row["event"] == "leave" and not row["error_code"])


def _stays(context: SignalContext, facts: ClientFacts, client: str, leave: Row) -> bool:
    """Return whether a client keeps its connection after it left, and works on, to the end of the capture."""
    later = leave["time_ns"] + STAYED_NS
    return (
        context.end_ns > later
        and not context.is_closed(leave["connection"])
        and facts.active_after(client, later) is not None
    )


def _restarts(context: SignalContext, group: Group, client: str, events: Sequence[Row]) -> Iterator[Signal]:
    """Yield clients whose members join and end within the capture, one after the other.

    Members that live side by side are several of one name; members that stay are a deployment.
    """
    starts = _starts(context, events)
    if not starts:
        return
    begin, rebalances = asked_ns(starts[0]), group.generations()
    lasted = asked_ns(starts[-1]) - begin
    yield member_signal(
        context,
        "member_restarts",
        group,
        client,
        (begin, until_ns(context, starts[-1]["time_ns"])),
        f"{client} joined group {group.name} as a new member {counted(len(starts), 'time')} from "
        f"{format_clock(begin)} for {format_duration(lasted)}, and the group rebalanced "
        f"{counted(rebalances, 'time')}",
        starts,
        generations=rebalances,
        lasted_ns=lasted,
    )


def _starts(context: SignalContext, events: Sequence[Row]) -> list[Row]:
    """Return the joins of new members, if there are several, and nearly all of them ended before the last."""
    seen: set[str] = set()
    lines: set[int] = set()
    starts = []
    for row in events:
        if is_join(row) and row["member_id"] is not None and row["member_id"] not in seen:
            seen.add(row["member_id"])
            if row["connection"] not in lines and row["instance_id"] is None:
                starts.append(row)
            lines.add(row["connection"])
    if len(starts) < RESTARTS:
        return []
    ends = [end_of_member(context, events, row) for row in starts]
    short = sum(end < asked_ns(starts[-1]) for end in ends)
    return starts if short >= len(starts) - 1 else []


def _restarts_under_new_names(context: SignalContext, group: Group) -> Iterator[Signal]:
    """Yield processes of one host that start again and again under client ids that are partly random.

    Those that leave in order are jobs, which come and go.
    """
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for client, events in sorted(group.clients.items()):
        if not any(row["event"] == "leave" for row in events):
            families[stem_of(events[0]["client_id"] or ""), events[0]["client_host"] or "?"].append(client)
    for (stem, host), clients in sorted(families.items()):
        events = sorted((row for client in clients for row in group.clients[client]), key=asked_ns)
        starts = _starts(context, events) if len(clients) >= RESTARTS else []
        if not starts:
            continue
        begin = asked_ns(starts[0])
        names = sorted({row["client"] for row in starts})
        lasted = asked_ns(starts[-1]) - begin
        yield make_signal(
            "member_restarts",
            (SubjectKind.GROUP, group.name),
            (begin, until_ns(context, starts[-1]["time_ns"])),
            f"{counted(len(starts), 'short-lived client')} named {stem or '…'}-… at {host} "
            f"({names[0]}, {names[-1]}) joined group {group.name} one after the other from "
            f"{format_clock(begin)} for {format_duration(lasted)}, and none left it; the group rebalanced "
            f"{counted(group.generations(), 'time')}",
            measures={"count": len(starts), "generations": group.generations(), "lasted_ns": lasted},
            clients=group.clients,
            groups=[group.name],
            requests=len(starts),
            evidence=[event_evidence(context, names[0], f"new member of group {group.name}", starts)],
        )


def _fenced(context: SignalContext, facts: ClientFacts, group: Group) -> Iterator[Signal]:
    by_instance: dict[str, list[Row]] = defaultdict(list)
    for row in group.events:
        if row["instance_id"] is not None:
            by_instance[row["instance_id"]].append(row)
    for instance, rows in sorted(by_instance.items()):
        displaced = _displaced(group, rows) or _refused_commits(context, group, rows)
        if not displaced:
            continue
        first = displaced[0]
        joins = [row for row in rows if row["event"] == "join" and asked_ns(row) < first["time_ns"]]
        refused = first["error_code"] == ErrorCode.UNRELEASED_INSTANCE_ID
        began = first if refused or not joins else joins[-1]
        begin = facts.connected(began["client"], asked_ns(began))
        clients = sorted({row["client"] for row in (*rows, *displaced)})
        lines = counted(len({row["connection"] for row in (*rows, *displaced)}), "connection")
        errors = ", ".join(sorted({row["error_name"] for row in displaced}))
        yield make_signal(
            "instance_fenced",
            (SubjectKind.GROUP, group.name),
            (begin, until_ns(context, displaced[-1]["time_ns"])),
            f"group.instance.id {instance} of group {group.name} has two members since "
            f"{format_clock(begin)}, on {lines} ({', '.join(clients[:NAMED])}): they put each other out "
            f"{counted(len(displaced), 'time')} ({errors})",
            measures={"count": len(displaced), "clients": len(clients)},
            clients=clients,
            groups=[group.name],
            requests=len(displaced),
            evidence=[
                event_evidence(context, instance, f"displaced: group.instance.id {instance}", displaced)
            ],
        )


def _refused_commits(context: SignalContext, group: Group, rows: Sequence[Row]) -> list[Row]:
    """Return commits that were refused since another member took the instance id, as rows of events.

    A member that only commits before it ends learns it from no heartbeat.
    """
    clients = {row["client"] for row in rows}
    refused = [
        error
        for error in context.rules.of_kind("error")
        if error.code in FENCED and error.group_id == group.name and error.client in clients
    ]
    found: dict[int, Row] = {}
    for error in sorted(refused, key=lambda error: error.first_ns):
        place = error.location
        found.setdefault(
            error.first_ns,
            {
                "event": "error",
                "client": error.client,
                "client_id": place.client_id,
                "connection": place.connection,
                "asked_ns": error.first_ns,
                "time_ns": error.last_ns,
                "error_code": error.code,
                "error_name": error.error,
                "request_packet": place.request_packet,
                "response_packet": place.response_packet,
                "capture_file": place.capture_file,
            },
        )
    return list(found.values())


def _displaced(group: Group, rows: Sequence[Row]) -> list[Row]:
    """Return the refusals of members whose instance id another member took.

    A member that is unknown was displaced if its instance joined by another connection since it did.
    """
    joins = [row for row in rows if is_join(row)]
    joined = {row["member_id"]: row for row in joins}
    found = []
    for row in group.events:
        if row["error_code"] in FENCED and row in rows:
            found.append(row)
        elif row["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID and row["member_id"] in joined:
            own = joined[row["member_id"]]
            if any(
                one["connection"] not in (own["connection"], row["connection"])
                and asked_ns(own) < asked_ns(one) <= row["time_ns"]
                for one in joins
            ):
                found.append(row)
    return found
