"""Brokers that die in one moment are one incident: a rack, a switch or a room lost its power.

Each of them is judged alone first. Those that died within MOMENT_NS of each other are joined. A broker that
dies later, for instance since it has the load of the others then, is an incident of its own.
"""

from collections.abc import Sequence

from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, joined_core
from kdissect.report.incidents.lost_server_causes import SOON_NS, broker_killed
from kdissect.report.incidents.one_host import host_of
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.wording import capitalized, counted, joined, refused_attempts, under_way
from kdissect.text import format_clock, format_duration

ANCHORS = ("connections_ended", "attempts_refused")
MOMENT_NS = SECOND
"""Deaths of one reason are closer together: kernels close the connections of a dead process at once."""

IN_BETWEEN = "a load balancer, a proxy or a tunnel that stands there for them may have ended in their place"
MOST_TOGETHER = 50
NAMED = 3


def brokers_killed(case: Case) -> Diagnosis | None:
    """A broker died, alone or together with others."""
    own = broker_killed(case)
    if own is None:
        return None
    together = _processes(_together(case, own))
    return _joined(together) if len(together) > 1 else together[0]


def _together(case: Case, own: Diagnosis) -> list[Diagnosis]:
    """Return the brokers that died in one moment, one diagnosis each, in the order of time."""
    dead = {own.subject: own}
    for signal in case.signals:
        near = abs(signal.begin_ns - own.begin_ns) <= SOON_NS + MOMENT_NS
        if not near or signal.kind not in ANCHORS or signal.subject in dead:
            continue
        other = broker_killed(case.beside(signal))
        if other is not None and abs(other.begin_ns - own.begin_ns) <= MOMENT_NS:
            dead[signal.subject] = other
        if len(dead) == MOST_TOGETHER:
            break
    return sorted(dead.values(), key=lambda one: (one.begin_ns, one.subject.name))


def _processes(dead: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Return the diagnoses without those of ports that belong to the process of another one."""
    return [one for one in dead if not any(one.core[0] in other.core for other in dead if other is not one)]


def _joined(dead: Sequence[Diagnosis]) -> Diagnosis:
    """Return one diagnosis of brokers that died together."""
    core = joined_core(dead)
    begin = min(one.begin_ns for one in dead)
    ends = [one.end_ns for one in dead if one.end_ns is not None]
    end = max(ends) if len(ends) == len(dead) else None
    names = joined([one.subject.name for one in dead], NAMED)
    parts = [*_ended(core), *_refused(core, end)]
    hosts = {host_of(one.subject.name) for one in dead}
    against = [f"all are at one address, {host}: {IN_BETWEEN}" for host in hosts if len(hosts) == 1 and host]
    back = "" if end is None else f", and all were back after {format_duration(end - begin)}"
    return dead[0]._replace(
        subject=Subject(kind=SubjectKind.CLUSTER, name="the cluster"),
        begin_ns=begin,
        end_ns=end,
        headline=f"{capitalized(names)} died together at {format_clock(begin)}{back}: {', '.join(parts)}",
        confidence=max(one.confidence for one in dead),
        core=core,
        speaks_for=(f"{counted(len(dead), 'broker')} died in one moment", *dead[0].speaks_for),
        speaks_against=(*against, *dead[0].speaks_against),
        means="The processes of these brokers ended without a handover, or their machines did: what they "
        "have in common (power, a switch, a host, an operator) may be why.",
    )


def _ended(core: Sequence[Signal]) -> list[str]:
    """Return how many connections ended, and with how many requests."""
    ended = [signal for signal in core if signal.kind == "connections_ended"]
    if not ended:
        return []
    connections, cut = (sum(signal.measures[name] for signal in ended) for name in ("connections", "cut"))
    return [f"{counted(connections, 'connection')} ended{under_way(cut)}"]


def _refused(core: Sequence[Signal], end_ns: int | None) -> list[str]:
    """Return how many attempts to connect were refused."""
    attempts = sum(signal.requests for signal in core if signal.kind == "attempts_refused")
    return [refused_attempts(attempts, end_ns is not None)] if attempts else []
