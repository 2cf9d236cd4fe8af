"""Causes that are a server that stood still.

broker_frozen     no byte from it while requests waited

A write with acks=all, or a commit, waits for followers on other brokers. A capture of one host of clients may
show several servers that are silent at once, and only one of them stands still.
"""

from collections.abc import Sequence

from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, Relation
from kdissect.report.incidents.lost_server_causes import BY_SERVER
from kdissect.report.incidents.one_host import doubts_of_one_host
from kdissect.report.incidents.slow_server_causes import BUSY_REACTION_NS, SAME_MOMENT_NS
from kdissect.report.model.incidents import Signal
from kdissect.report.signals.waiting import waiting_text
from kdissect.report.wording import capitalized, counted, for_so_long, joined, listed
from kdissect.text import format_clock, format_duration

NOT_LET_IN = (
    "login_absent",
    "credentials_refused",
    "mechanism_refused",
    "authentication_failed",
    "closed_at_once",
)
"""Signals of clients whose connections a server closes before they can work."""

FROZEN_NS, FROZEN_CALM_NS, SURELY_FROZEN_NS = 5 * SECOND // 2, 9 * SECOND // 5, 5 * SECOND
"""A shorter silence is a pause that a busy broker may make; the second holds if no other pauses or is busy.

Below the third, pauses of other servers at other times count: they are what is normal in this capture.
"""

NOISE_RATIO = 2

TOGETHER_NS = SECOND // 10
"""Servers that answer again within this were waiting for the first of them, or stood still together.

If a follower stays away for longer, its leaders give it up, and answer before it does.
"""

NAMED = 3
FOLLOWED = "only writes with acks=all, or commits, waited: one of its followers may be what stood still"


def broker_frozen(case: Case) -> Diagnosis | None:
    """No byte from a server while requests of several connections waited."""
    silent = case.anchor
    if not _is_long(case) or _waits_for_another(case) or _ended_first(case) or _keeps_out(case):
        return None
    together = _frozen_together(case)
    if together and _clients_stood_still(together):
        return None
    several = _among_several(case) or (_froze_together(together) if together else None)
    if several is not None:
        return several
    alone = silent.measures["connections"] == 1 and not silent.measures.get("unknown_requests")
    followed = not silent.measures["own_requests"]
    ending = for_so_long(silent.measures["silent_ns"], silent.end_ns is not None)
    return Diagnosis(
        silent.subject,
        silent.begin_ns,
        silent.end_ns,
        f"{capitalized(silent.subject.name)} froze at {format_clock(silent.begin_ns)} {ending}: "
        f"it sent nothing while {waiting_text(silent.measures)} waited",
        (0.9 if silent.end_ns is not None else 0.75) - (0.2 if alone else 0),
        (silent,),
        speaks_for=("all of its connections were silent at the same time",),
        speaks_against=(
            *(() if silent.end_ns is not None else ("it did not answer again in the capture",)),
            *(("only one connection shows it",) if alone else ()),
            *((FOLLOWED,) if followed else ()),
            *doubts_of_one_host(silent),
        ),
    )


def _is_long(case: Case) -> bool:
    """Return whether a silence is longer than pauses that are normal in the capture."""
    lasted = case.anchor.measures["silent_ns"]
    pauses = [
        signal.measures["silent_ns"]
        for signal in case.signals
        if signal.kind == case.anchor.kind
        and signal.subject != case.anchor.subject
        and abs(signal.begin_ns - case.anchor.begin_ns) > SAME_MOMENT_NS + lasted
    ]
    if lasted < SURELY_FROZEN_NS and lasted < NOISE_RATIO * max(pauses, default=0):
        return False
    calm = not pauses and case.anchor.measures.get("rival_reaction_ns", 0) < BUSY_REACTION_NS
    return lasted >= (FROZEN_CALM_NS if calm else FROZEN_NS)


def _ended_first(case: Case) -> bool:
    """Return whether the server is silent since it ended, and not since it stood still.

    The kernel of a process that stands still accepts connections and closes none.
    """
    silent = case.anchor
    ended = case.near(("connections_ended",), Relation.SUBJECT, SECOND, 0)
    closed = [one for one in ended if one.measures["by_server"] >= BY_SERVER * one.measures["connections"]]
    gone = [*closed, *case.near(("attempts_refused",), Relation.SUBJECT, SECOND, 0)]
    return any(one.begin_ns - silent.begin_ns < FROZEN_NS for one in gone)


def _keeps_out(case: Case) -> bool:
    """Return whether those who wait are clients that the server does not let in.

    It closes their connections. A capture that lacks packets may not show how one of them ended.
    """
    silent = case.anchor
    refused = case.near(NOT_LET_IN, Relation.SERVER, silent.begin_ns, 0)
    return bool(silent.clients) and set(silent.clients) <= {name for one in refused for name in one.clients}


def _frozen_together(case: Case) -> list[Signal]:
    """Return the silences of several servers that froze at once; none if only one did.

    Each of them owes a response that needs no follower.
    """
    silent = case.anchor
    also = [one for one in _others(case) if one.measures["own_requests"] and _answer_together(one, silent)]
    return [silent, *also] if silent.measures["own_requests"] and also else []


def _clients_stood_still(together: Sequence[Signal]) -> bool:
    """Return whether nobody asked servers that froze together for anything meanwhile.

    Then their clients stood still as well: the machine that all of them share, or that captured, was busy.
    The first silence is the one that is judged.
    """
    short = together[0].measures["silent_ns"] < SURELY_FROZEN_NS
    return short and not any(one.measures.get("asked_later") for one in together)


def _froze_together(together: Sequence[Signal]) -> Diagnosis:
    """Return the diagnosis of servers that froze together, dated to the first silence, which is judged."""
    silent = together[0]
    counts = ("requests", "connections", "unknown_requests")
    waiting = {name: sum(one.measures.get(name, 0) for one in together) for name in counts}
    names = joined(sorted(one.subject.name for one in together), NAMED)
    lasted = format_duration(silent.measures["silent_ns"])
    return Diagnosis(
        silent.subject,
        silent.begin_ns,
        silent.end_ns,
        f"{capitalized(names)} froze together at {format_clock(silent.begin_ns)} for {lasted}: they sent "
        f"nothing while {waiting_text(waiting)} waited",
        0.9,
        tuple(together),
        speaks_for=("each of them owed responses for which it needs no other broker",),
        speaks_against=(*doubts_of_one_host(silent),),
        means="These processes stood still at once: what they share did, such as a machine, a hypervisor or "
        "storage.",
    )


def _others(case: Case) -> list[Signal]:
    """Return the silences of other servers that began at the same moment."""
    silent = case.anchor
    return [
        signal
        for signal in case.near((silent.kind,), Relation.ANYWHERE, SAME_MOMENT_NS, SAME_MOMENT_NS)
        if signal.subject != silent.subject and abs(signal.begin_ns - silent.begin_ns) <= SAME_MOMENT_NS
    ]


def _waits_for_another(case: Case) -> bool:
    """Return whether a server that is silent only waits for followers on another silent server."""
    silent = case.anchor
    return any(_is_rather(signal, silent) for signal in _others(case))


def _is_rather(one: Signal, other: Signal) -> bool:
    """Return whether one silent server stands still rather than another one.

    It owes responses that need no follower. If neither does, or both do, the last to answer again stands
    still; but it is the first if they answer together, since the others have waited for it.
    """
    own, others = (signal.measures["own_requests"] > 0 for signal in (one, other))
    if own != others:
        return own
    if not own and _answer_together(one, other):
        return (one.end_ns or 0, one.subject.name) < (other.end_ns or 0, other.subject.name)
    return (one.measures["silent_ns"], other.subject.name) > (other.measures["silent_ns"], one.subject.name)


def _answer_together(one: Signal, other: Signal) -> bool:
    return bool(one.end_ns and other.end_ns) and abs((one.end_ns or 0) - (other.end_ns or 0)) <= TOGETHER_NS


def _among_several(case: Case) -> Diagnosis | None:
    """Return which of several servers may stand still if all of them owe only what waits for followers."""
    silent, others = case.anchor, _others(case)
    waiting = [silent, *(one for one in others if not one.measures["own_requests"])]
    if silent.measures["own_requests"] or len(waiting) == 1:
        return None
    last = all(not _answer_together(silent, one) for one in waiting[1:])
    known = "took longest" if last else "was the first to answer again"
    requests = counted(sum(one.requests for one in waiting), "request")
    names = listed(sorted({one.subject.name for one in waiting}), NAMED)
    return Diagnosis(
        silent.subject,
        silent.begin_ns,
        silent.end_ns,
        f"Probably {silent.subject.name} froze at {format_clock(silent.begin_ns)} for "
        f"{format_duration(silent.measures['silent_ns'])}: {requests} with acks=all, or commits, waited at "
        f"{names}, and it {known}",
        0.6,
        tuple(waiting),
        speaks_for=(f"it {known}", "a write with acks=all waits for a follower that stands still"),
        speaks_against=(
            "nothing else that it owed was under way: another of these brokers may be the one that froze",
        ),
    )
