"""Causes that lie with a server that is gone: it was killed, or it was stopped.

broker_killed     its connections ended together, attempts are refused, nothing moved before
broker_stopped    the same, but leadership moved away before, or the server asked for its shutdown
"""

import re

from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, Relation
from kdissect.report.incidents.one_host import host_of
from kdissect.report.model.incidents import Signal
from kdissect.report.signals.client_names import BROKERS_OWN
from kdissect.report.signals.server_names import is_broker, is_node
from kdissect.report.wording import (
    UNTIL_THE_END,
    capitalized,
    counted,
    known_as,
    listed,
    refused_attempts,
    under_way,
)
from kdissect.text import LOOPBACK_HOSTS, format_clock, format_duration

HANDOVER_NS = 8 * SECOND
"""A broker that stops in good order hands its partitions over within this time before it closes."""

BACK_NS = 120 * SECOND
SOON_NS = 5 * SECOND
"""A server that closes a connection this shortly before it refuses the next one ended at that moment."""

NEXT_NS = 10 * SECOND
"""Others try to reach a process at all of its ports within this time after it ended."""

QUIET_NS = 10 * SECOND
"""Clients try again within this time: it is not known when a server came up if nobody tried for longer."""

CLOSING_NS = SECOND // 4
"""Packets that still follow the end of a connection come within this."""

RESTART_NS = 2 * SECOND
"""A server that accepts connections sooner than this, and refused none, did not end."""

ASKED_NS = 120 * SECOND
"""A broker that asked for its shutdown ends within this: it waits for the controller, and asks again."""

ASKED = ("shutdown_asked",)
HANDOVER = ("leadership_left", "coordinator_left")
HANDOVER_CLIENTS = 2
"""A handover is known if so many clients and replicas learnt of it; one alone may have been out of date."""

BROKERS = re.compile(rf"(?:{BROKERS_OWN.pattern}|\d{{1,9}}) at ")
"""Clients that brokers are for each other; the channel to a controller has the id of its node."""

DOWN_ATTEMPTS = 3
TOPICS_NAMED = CLIENTS_NAMED = 3
BY_SERVER = 0.6
"""The part of connections that the server closed, from which on it ended them all."""


def broker_killed(case: Case) -> Diagnosis | None:
    """Connections of a server ended together, or its last one did, and nothing announced it."""
    if case.anchor.kind == "attempts_refused":
        return _last_one_ended(case, "died") if closed_last(case) and not announced(case) else None
    if _handover(case):
        return None
    if _was_busy(case.anchor):
        return _gone(case, "died", "requests were under way on most of its connections when they ended")
    return _gone(case, "died", "no partition moved away before its connections ended")


def broker_stopped(case: Case) -> Diagnosis | None:
    """Connections of a server ended together after a handover, or its last one after it asked to end."""
    if case.anchor.kind == "attempts_refused":
        return _last_one_ended(case, "was stopped") if closed_last(case) and shutdown_requests(case) else None
    before = _handover(case)
    if not before:
        return None
    asked = before[0].kind in ASKED
    reason = "it asked for its shutdown" if asked else "partitions moved away before its connections ended"
    return _gone(case, "was stopped", reason, tuple(before))


def _was_busy(ended: Signal) -> bool:
    """Return whether requests were under way on most connections when they ended, if captured in full.

    A broker that stops in good order answers what it has begun, and nobody sends more to it by then.
    """
    return 2 * ended.measures["cut"] >= max(ended.measures["complete"], 1)


def _handover(case: Case) -> list[Signal]:
    """Return signals of a handover: a request for it, or that the server no longer leads or coordinates.

    An election shortly before is none if the server was still at work when its connections ended.
    """
    requests = shutdown_requests(case)
    if requests:
        return requests
    if _was_busy(case.anchor):
        return []
    moved = case.near(HANDOVER, Relation.SUBJECT, before_ns=HANDOVER_NS, after_ns=0)
    before = [signal for signal in moved if signal.begin_ns < case.anchor.begin_ns - SECOND // 20]
    known = sum(signal.measures["clients"] + signal.measures["replicas"] for signal in before)
    return sorted(before, key=lambda signal: signal.begin_ns) if known >= HANDOVER_CLIENTS else []


def shutdown_requests(case: Case) -> list[Signal]:
    """Return the requests for this shutdown of the server, without those before it was back from another."""
    begin_ns = case.anchor.begin_ns
    ends = case.near(("connections_ended", "attempts_refused"), Relation.SUBJECT, ASKED_NS, 0)
    again = [one.measures.get("again_ns", one.end_ns or 0) for one in ends]
    back_ns = max((time for time in again if time <= begin_ns), default=0)
    requests = case.near(ASKED, Relation.SUBJECT, ASKED_NS, 0)
    return [signal for signal in requests if back_ns < signal.begin_ns <= begin_ns]


def _gone(case: Case, verb: str, reason: str, before: tuple[Signal, ...] = ()) -> Diagnosis | None:
    ended = case.anchor
    together = _ended_with(case)
    refused = _refused(case, together)
    ports = {signal.subject for signal in refused}
    others = [one for one in together if one.subject in ports and one not in refused]
    alone = ended.measures["by_server"] >= BY_SERVER * ended.measures["connections"]
    several = len(ended.clients) >= HANDOVER_CLIENTS
    again = ended.measures["again_ns"]
    alive = bool(again) and again - ended.end_ns < RESTART_NS if ended.end_ns is not None else False
    cut = ended.measures["cut"] and ended.measures["by_server"]  # clients that end cut requests, too
    if not refused and (alive or not (several and (alone or cut))):
        return None
    begin = before[0].begin_ns if before else ended.begin_ns
    end = refused[0].end_ns if refused else ended.measures["again_ns"] or None
    connections = counted(ended.measures["connections"], "connection")
    parts = [f"{connections} ended together{under_way(ended.measures['cut'])}"]
    if refused:
        parts.append(_refusals(refused, end, case.end_ns))
    is_vague = refused and end and end - refused[0].measures["last_ns"] > QUIET_NS
    when = "within" if is_vague else "after"
    back = f" and was back {when} {format_duration(end - ended.begin_ns)}" if end else ""
    parts += _refused_writes(case)
    headline = f"{capitalized(ended.subject.name)} {verb} at {format_clock(begin)}{back}: {', '.join(parts)}"
    return Diagnosis(
        ended.subject,
        begin,
        end,
        headline,
        0.95 if refused else 0.7,
        (ended, *refused, *others, *before),
        speaks_for=(reason, *(("its address refused new connections",) if refused else ())),
        speaks_against=() if refused else ("no attempt to connect was refused afterwards",),
    )


def _refusals(refused: list[Signal], end_ns: int | None, capture_end_ns: int) -> str:
    """Return how many attempts to connect were refused, and whether that lasted to the end."""
    last_ns = max(signal.measures["last_ns"] for signal in refused)
    attempts = sum(signal.requests for signal in refused)
    if end_ns or capture_end_ns - last_ns <= QUIET_NS:
        return refused_attempts(attempts, bool(end_ns))
    return f"{counted(attempts, 'attempt')} to connect refused, the last at {format_clock(last_ns)}"


def _refused(case: Case, together: list[Signal]) -> list[Signal]:
    """Return the refused attempts after connections ended: those before the server talks again.

    Behind them come those at another port of its host at which nobody had talked: a broker that is a
    controller, too, listens there for the others. Many brokers may be at an address of localhost: there
    it is the only one that ended, and the attempts begin soon. Ports that ended `together` with it belong to
    it, too.
    """
    again = case.anchor.measures["again_ns"] or case.end_ns
    near = case.near(("attempts_refused",), Relation.SUBJECT, after_ns=BACK_NS)
    own = [signal for signal in near if signal.begin_ns <= again]
    host = host_of(case.anchor.subject.name)
    if not own or not host:
        return own
    if host in LOOPBACK_HOSTS:
        ends = case.near(("connections_ended",), Relation.ANYWHERE, NEXT_NS, NEXT_NS)
        again = min(again, case.anchor.begin_ns + NEXT_NS)
        if any(host_of(one.subject.name) in LOOPBACK_HOSTS and one not in together for one in ends):
            return own
    subjects = {signal.subject for signal in together}
    others = [
        signal
        for signal in case.near(("attempts_refused",), Relation.ANYWHERE, after_ns=BACK_NS)
        if host_of(signal.subject.name) == host
        and (not signal.measures["talked_ns"] or signal.subject in subjects)
    ]
    return [*own, *(signal for signal in others if case.anchor.begin_ns <= signal.begin_ns <= again)]


def _ended_with(case: Case) -> list[Signal]:
    """Return the ends of other ports of a broker: they have no name, and only brokers had talked there.

    A broker that is a controller, too, ends as a broker first, and as a controller a moment later.
    """
    if not is_broker(case.anchor.subject.name):
        return []
    host = host_of(case.anchor.subject.name)
    near = case.near(("connections_ended", "attempts_refused"), Relation.ANYWHERE, CLOSING_NS, NEXT_NS)
    return [
        signal
        for signal in near
        if host_of(signal.subject.name) == host
        and not is_node(signal.subject.name)
        and signal.clients
        and all(BROKERS.match(client) for client in signal.clients)
        and (signal.kind == "connections_ended" or closed_last(case.beside(signal)))
    ]


def closed_last(case: Case) -> bool:
    """Return whether a server closed its last connection, and soon refused the next one."""
    refused = case.anchor
    soon = refused.begin_ns - refused.measures["closed_ns"] <= SOON_NS
    last = refused.measures["talked_ns"] - refused.measures["closed_ns"] <= CLOSING_NS
    together = case.near(("connections_ended",), Relation.SUBJECT, BACK_NS, SECOND)
    return soon and last and not together


def announced(case: Case) -> bool:
    """Return whether a server asked for its shutdown, or a handover was seen shortly before."""
    return bool(shutdown_requests(case) or case.near(HANDOVER, Relation.SUBJECT, HANDOVER_NS, 0))


def _last_one_ended(case: Case, verb: str) -> Diagnosis | None:
    """Return that a server died or was stopped of which hardly any connection is in the capture."""
    down = refuses(case)
    if down is None:
        return None
    ended, refused = case.anchor.measures["closed_ns"], case.anchor
    name, attempts = capitalized(refused.subject.name), counted(refused.measures["attempts"], "attempt")
    back = f" and was back after {format_duration(down.end_ns - ended)}" if down.end_ns else ""
    until = "" if down.end_ns else f" {UNTIL_THE_END}"
    asked = shutdown_requests(case)
    reason = "it asked for its shutdown" if asked else "no partition moved away before its connection ended"
    return down._replace(
        begin_ns=ended,
        headline=f"{name} {verb} at {format_clock(ended)}{back}: it closed its last connection, and "
        f"{attempts} to connect {'was' if refused.measures['attempts'] == 1 else 'were'} refused{until}",
        core=(*down.core, *asked),
        speaks_for=(reason, *down.speaks_for),
        speaks_against=() if asked else ("few connections show it: it may have been stopped in good order",),
    )


def refuses(case: Case) -> Diagnosis | None:
    """Return that a server refuses attempts to connect, if no connections of it were seen to end together."""
    refused = case.anchor
    lasted = refused.measures["last_ns"] - refused.begin_ns
    if refused.measures["attempts"] < DOWN_ATTEMPTS or lasted < SECOND or refused.measures["elsewhere"]:
        return None
    if case.near(("connections_ended",), Relation.SUBJECT, BACK_NS, SECOND):
        return None
    name = capitalized(refused.subject.name)
    attempts = counted(refused.measures["attempts"], "attempt")
    ending = UNTIL_THE_END
    if refused.end_ns is not None:
        ending = (
            f"until {format_clock(refused.end_ns)} ({format_duration(refused.end_ns - refused.begin_ns)})"
        )
    talked = refused.measures["talked_ns"]
    before = f"; its last connection ended at {format_clock(talked)}" if talked else ""
    since = f"since {format_clock(refused.begin_ns)}" if talked else "since the capture began or before"
    who = "" if talked else f" of {listed([*map(known_as, refused.clients)], CLIENTS_NAMED)}"
    state = f"{name} is down {since}"
    if not talked and not is_broker(refused.subject.name):
        state = f"Nobody listens at {refused.subject.name}, since {format_clock(refused.begin_ns)} or before"
    return Diagnosis(
        refused.subject,
        refused.begin_ns,
        refused.end_ns,
        f"{state}: {attempts}{who} to connect refused {ending}{before}",
        0.8,
        (refused,),
        speaks_for=("its host refuses connections: the host lives, and no process listens at the port",),
        speaks_against=() if talked else ("nobody may ever have listened at this address",),
    )


def _refused_writes(case: Case) -> list[str]:
    """Return what topics that want more in-sync replicas than are left do."""
    missing = case.near(("replicas_missing",), Relation.ANYWHERE, 15 * SECOND, 30 * SECOND)
    if not missing:
        return []
    topics = listed(sorted({topic for signal in missing for topic in signal.topics}), TOPICS_NAMED)
    writes = counted(sum(signal.requests for signal in missing), "write")
    return [f"{writes} to {topics} refused since too few replicas are in sync"]
