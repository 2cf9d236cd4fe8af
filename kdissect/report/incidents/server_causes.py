"""Causes that lie with a server: it was killed, it was stopped, it froze.

broker_killed     its connections ended together, attempts are refused, nothing moved before
broker_stopped    the same, and leadership moved away before the connections ended
broker_frozen     no byte from it while requests waited
"""

from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, Relation
from kdissect.report.model.incidents import Signal
from kdissect.report.wording import counted
from kdissect.text import format_clock, format_duration

HANDOVER_NS = 15 * SECOND
"""A broker that stops in good order hands its partitions over within this time before it closes."""

BACK_NS = 120 * SECOND
FAREWELL = ("leader_moved", "not_leader")


def broker_killed(case: Case) -> Diagnosis | None:
    """Connections of a server ended together, and nothing announced it."""
    if _farewell(case):
        return None
    return _gone(case, "died", "no partition moved away before its connections ended")


def broker_stopped(case: Case) -> Diagnosis | None:
    """Connections of a server ended together after leadership had moved away."""
    before = _farewell(case)
    if not before:
        return None
    return _gone(case, "was stopped", "partitions moved away before its connections ended", tuple(before))


def _farewell(case: Case) -> list[Signal]:
    """Return signals of a handover: leadership moves away while the server still answers."""
    moved = case.near(FAREWELL, Relation.SERVER, before_ns=HANDOVER_NS, after_ns=0)
    return [signal for signal in moved if signal.begin_ns < case.anchor.begin_ns - SECOND // 20]


def _gone(case: Case, verb: str, reason: str, before: tuple[Signal, ...] = ()) -> Diagnosis | None:
    ended = case.anchor
    refused = case.near(("attempts_refused",), Relation.SUBJECT, after_ns=BACK_NS)
    if not refused and not ended.measures["cut"]:
        return None
    end = refused[0].end_ns if refused else ended.end_ns
    parts = [f"{counted(ended.measures['connections'], 'connection')} ended together"]
    if ended.measures["cut"]:
        parts[0] += f" with {counted(ended.measures['cut'], 'request')} under way"
    if refused:
        attempts = counted(sum(signal.requests for signal in refused), "attempt")
        parts.append(f"{attempts} to connect refused{'' if end else ' until the end of the capture'}")
    back = f" and was back after {format_duration(end - ended.begin_ns)}" if refused and end else ""
    headline = f"{_capital(ended)} {verb} at {format_clock(ended.begin_ns)}{back}: {', '.join(parts)}"
    return Diagnosis(
        ended.subject,
        before[0].begin_ns if before else ended.begin_ns,
        end,
        headline,
        0.95 if refused else 0.7,
        (ended, *refused, *before),
        speaks_for=(reason, *(("its address refused new connections",) if refused else ())),
        speaks_against=() if refused else ("no attempt to connect was refused afterwards",),
    )


def broker_frozen(case: Case) -> Diagnosis | None:
    """No byte from a server while requests of several connections waited."""
    silent = case.anchor
    waiting = counted(silent.requests, "request")
    connections = counted(silent.measures["connections"], "connection")
    lasted = format_duration(silent.measures["silent_ns"])
    ending = f"for {lasted}" if silent.end_ns is not None else f"for {lasted}, to the end of the capture"
    return Diagnosis(
        silent.subject,
        silent.begin_ns,
        silent.end_ns,
        f"{_capital(silent)} froze at {format_clock(silent.begin_ns)} {ending}: it sent nothing while "
        f"{waiting} on {connections} waited",
        0.9 if silent.end_ns is not None else 0.75,
        (silent,),
        speaks_for=("all of its connections were silent at the same time",),
        speaks_against=() if silent.end_ns is not None else ("it did not answer again in the capture",),
    )


def _capital(signal: Signal) -> str:
    name = signal.subject.name
    return name[:1].upper() + name[1:]
