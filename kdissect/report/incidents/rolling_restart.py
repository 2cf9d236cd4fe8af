"""Brokers that are stopped in good order one after the other, as a rolling restart does: one incident.

Each of them is judged alone first. The next one follows if it is stopped when the one before is back, and
within `lost_server_causes.BACK_NS` of it. Brokers that are gone at the same time are incidents of their own.
"""

from collections.abc import Sequence

from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, joined_core
from kdissect.report.incidents.lost_server_causes import BACK_NS, QUIET_NS, broker_stopped
from kdissect.report.wording import AT_THE_END, capitalized, counted, listed, under_way
from kdissect.text import format_clock, format_duration

MOST_IN_TURN = 50
NAMED = 3
TOGETHER = "connections_ended"


def brokers_stopped(case: Case) -> Diagnosis | None:
    """A broker was stopped in good order, alone or in turn with others."""
    own = broker_stopped(case)
    if own is None or case.anchor.kind != TOGETHER:
        return own
    chain = _in_turn(case, own)
    return _joined(chain, case.end_ns) if len(chain) > 1 else own


def _in_turn(case: Case, own: Diagnosis) -> list[Diagnosis]:
    """Return the brokers that were stopped in turn with one, and that one, in the order of time."""
    stopped = [own]
    for signal in case.signals:
        if signal.kind == TOGETHER and signal.subject != own.subject:
            other = broker_stopped(case.beside(signal))
            if other is not None:
                stopped.append(other)
        if len(stopped) == MOST_IN_TURN:
            break
    stopped.sort(key=lambda one: (one.begin_ns, one.subject.name))
    at = stopped.index(own)
    first, last = at, at
    while first and _follows(stopped[first - 1], stopped[first]):
        first -= 1
    while last + 1 < len(stopped) and _follows(stopped[last], stopped[last + 1]):
        last += 1
    return stopped[first : last + 1]


def _follows(one: Diagnosis, other: Diagnosis) -> bool:
    """Return whether a broker was stopped soon after another one that was back by then."""
    near = other.begin_ns - one.begin_ns <= BACK_NS
    return near and one.end_ns is not None and one.end_ns <= other.begin_ns + SECOND


def _joined(chain: Sequence[Diagnosis], capture_end_ns: int) -> Diagnosis:
    """Return one diagnosis of brokers that were stopped in turn."""
    first, last = chain[0], chain[-1]
    ended = [one.core[0] for one in chain]
    connections = sum(signal.measures["connections"] for signal in ended)
    cut = sum(signal.measures["cut"] for signal in ended)
    away = [one.end_ns - one.begin_ns for one in chain if one.end_ns is not None]
    still = "" if last.end_ns is not None else f"; {_state(last, capture_end_ns)} {AT_THE_END}"
    which = "each" if last.end_ns is not None else "those that are back"
    names = listed([one.subject.name for one in chain], NAMED)
    return first._replace(
        end_ns=last.end_ns,
        headline=f"{capitalized(names)} were stopped one after the other from {format_clock(first.begin_ns)} "
        f"to {format_clock(last.begin_ns)}, {which} for up to {format_duration(max(away))}: "
        f"{counted(connections, 'connection')} ended{under_way(cut)}{still}",
        confidence=min(one.confidence for one in chain),
        core=joined_core(chain),
        speaks_for=("each was back before the next one was stopped", *first.speaks_for),
        speaks_against=(),
        means="The brokers were shut down in good order, each when the one before was back: a rolling "
        "restart.",
    )


def _state(last: Diagnosis, capture_end_ns: int) -> str:
    """Return what is known of a broker to which nobody connected after it was stopped."""
    refused = [signal for signal in last.core if signal.kind == "attempts_refused"]
    if any(capture_end_ns - signal.measures["last_ns"] <= QUIET_NS for signal in refused):
        return f"{last.subject.name} was not back"
    return f"nobody had connected to {last.subject.name} again"
