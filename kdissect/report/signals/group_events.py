"""The events of groups by group, client and connection, and what signals about members share.

In come the rows of GROUP_STEPS: joins, leaves, new epochs and refused heartbeats, dated to the packet. Out go
groups, each with its events in the order of time.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kdissect.report.model.findings import Evidence, Location
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.timeline_tables import GROUP_STEPS

Row = dict[str, Any]
SECOND, NS_PER_MS = 10**9, 10**6
DEFAULT_SESSION_MS = 45_000


class Group(NamedTuple):
    """The events of one group in the order of time, and those of each client and connection in it.

    The name is empty where the capture cut it.
    """

    name: str
    events: list[Row]
    clients: dict[str, list[Row]]
    connections: dict[int, list[Row]]

    @property
    def text(self) -> str:
        """The group as a sentence names it."""
        return f"group {self.name}" if self.name else "its group (the name was cut)"

    def generations(self) -> int:
        """Return how many generations the joins of the capture show."""
        return len({row["generation"] for row in self.events if is_join(row) and row["generation"]})


def read_groups(context: SignalContext) -> list[Group]:
    """Return the groups in the order of their names."""
    groups: dict[str, Group] = {}
    for row in _rows(context):
        if row["group_id"] is not None:
            _add(groups.setdefault(row["group_id"], _empty(row["group_id"])), row)
    return [groups[name] for name in sorted(groups)]


def unread_members(context: SignalContext) -> list[Group]:
    """Return the members whose groups nobody can name, each as a group of its own.

    The snap length has cut the names. Nobody can tell which of these members share a group.
    """
    is_cut = set(context.facts.numbers[context.facts.columns.ints("cut_bytes") > 0].tolist())
    members: dict[str, Group] = {}
    for row in _rows(context) if is_cut else ():
        if row["group_id"] is None and row["connection"] in is_cut:
            _add(members.setdefault(row["client"], _empty("")), row)
    return [members[client] for client in sorted(members)]


def _rows(context: SignalContext) -> list[Row]:
    """Return the events of groups in the order in which they were asked for, each with its client.

    Events beyond the limit of the table are one row without a time.
    """
    rows = [row for row in context.rows(GROUP_STEPS) if row["time_ns"] is not None]
    return sorted(rows, key=lambda row: (row["asked_ns"] or row["time_ns"], row["ordinal"]))


def _empty(name: str) -> Group:
    return Group(name, [], defaultdict(list), defaultdict(list))


def _add(group: Group, row: Row) -> None:
    group.events.append(row)
    group.clients[row["client"]].append(row)
    group.connections[row["connection"]].append(row)


def is_join(row: Row) -> bool:
    """Return whether an event is a join that was let in."""
    return bool(row["event"] == "join" and not row["error_code"])


def asked_ns(row: Row) -> int:
    """Return when the request of an event was sent."""
    return int(row["asked_ns"] or row["time_ns"])


def asked_between(events: Sequence[Row], begin_ns: int, end_ns: int) -> Sequence[Row]:
    """Return the events, of some in the order of time, whose requests were sent from a moment to another."""
    begin = bisect_left(events, begin_ns, key=asked_ns)
    return events[begin : bisect_right(events, end_ns, key=asked_ns)]


def session_ms(events: Iterable[Row]) -> int | None:
    """Return the session timeout that members asked for, None if no join tells it."""
    return max((row["session_timeout_ms"] or 0 for row in events), default=0) or None


def until_ns(context: SignalContext, last_ns: int) -> int | None:
    """Return the end of what was seen last at a time, None if it probably lasts to the end of the capture."""
    return None if context.end_ns - last_ns < 10 * SECOND else last_ns


def end_of_member(context: SignalContext, events: Sequence[Row], join: Row) -> int:
    """Return when a member left, or when the connection on which it joined was last seen."""
    line = join["connection"]
    leaves = (asked_ns(row) for row in events if row["event"] == "leave" and row["connection"] == line)
    left = min((time for time in leaves if time > asked_ns(join)), default=context.end_ns)
    return min(left, context.last_seen(line))


def event_evidence(context: SignalContext, subject: str, detail: str, rows: Sequence[Row]) -> Evidence:
    """Return evidence from events, located where the first one is."""
    first = rows[0]
    ends = context.end_of(first["connection"])
    return Evidence(
        subject=subject,
        detail=detail,
        count=len(rows),
        first_time_ns=asked_ns(first),
        last_time_ns=rows[-1]["time_ns"],
        place=Location(
            time_ns=asked_ns(first),
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


def member_signal(
    context: SignalContext,
    kind: str,
    group: Group,
    client: str,
    span: tuple[int, int | None],
    sentence: str,
    rows: Sequence[Row],
    **measures: int,
) -> Signal:
    """Return a signal about a client of a group, which touches all clients of the group."""
    others = sorted(set(group.clients) - {client})
    return make_signal(
        kind,
        (SubjectKind.CLIENT, client),
        span,
        sentence,
        measures={"count": len(rows), "members": len(group.clients), **measures},
        clients=[client, *others],
        groups=[group.name] if group.name else (),
        requests=len(rows),
        evidence=[event_evidence(context, client, sentence, rows)],
    )
