"""Causes that lie with the cluster: elections, coordinators, replicas.

leader_election             partitions got another leader while both brokers went on
coordinator_moved           groups got another coordinator while both brokers went on
too_few_in_sync_replicas    writes are refused since replicas are missing
"""

from collections import Counter

from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, Relation
from kdissect.report.model.incidents import Subject, SubjectKind
from kdissect.report.wording import capitalized, counted, listed
from kdissect.text import format_clock, format_duration

ELECTED_THINGS = 2
ELECTED_CLIENTS = 2
EARLY_NS = 3 * SECOND
"""In the first seconds of a capture clients still learn who leads: errors of that time tell of no move."""

NAMED = 3


def leader_election(case: Case) -> Diagnosis | None:
    """A server refuses partitions that it led, and several clients learn it."""
    left = case.anchor
    measures = left.measures
    if measures["things"] < ELECTED_THINGS or measures["clients"] < ELECTED_CLIENTS:
        return None
    if left.begin_ns - case.begin_ns < EARLY_NS:
        return None
    around = case.near(("leadership_left",), Relation.TOPIC, SECOND, SECOND)
    begin = min(signal.begin_ns for signal in (left, *around))
    new = sorted(
        {
            signal.subject.name
            for signal in around
            if signal.subject != left.subject and not signal.measures["clients"]
        }
    )
    moved = case.near(("leaders_moved",), Relation.SUBJECT, 2 * SECOND, 30 * SECOND)
    to = f" to {listed(new, NAMED)}" if new else ""
    topics = listed(left.topics, NAMED)
    things = max(measures["things"], *(signal.measures["partitions"] for signal in moved), 0)
    partitions = counted(things, "partition")
    return Diagnosis(
        left.subject,
        begin,
        left.end_ns,
        f"Leadership of {partitions} ({topics}) moved away from {left.subject.name}{to} at "
        f"{format_clock(begin)}, while it went on: {counted(left.requests, 'request')} of "
        f"{counted(measures['clients'], 'client')} went to the wrong broker",
        0.7,
        (left, *around),
        speaks_for=("the brokers kept their connections",),
    )


def coordinator_moved(case: Case) -> Diagnosis | None:
    """A server refuses a group that it coordinated."""
    left = case.anchor
    if left.begin_ns - case.begin_ns < EARLY_NS or not left.measures["clients"]:
        return None
    groups = listed(left.groups, NAMED)
    one = len(left.groups) == 1
    subject = Subject(kind=SubjectKind.GROUP, name=left.groups[0]) if one else left.subject
    return Diagnosis(
        subject,
        left.begin_ns,
        left.end_ns,
        f"{'Group' if one else 'Groups'} {groups} lost {left.subject.name} as coordinator at "
        f"{format_clock(left.begin_ns)}, while it went on: {counted(left.requests, 'request')} of "
        f"{counted(left.measures['clients'], 'client')} refused",
        0.7,
        (left,),
    )


def too_few_in_sync_replicas(case: Case) -> Diagnosis | None:
    """Writes are refused with NOT_ENOUGH_REPLICAS."""
    errors = case.anchor
    gone: list[str] = []
    for kind in ("connections_ended", "follower_silent", "attempts_refused"):
        lost = case.near((kind,), Relation.ANYWHERE, 10 * SECOND, 0)
        early = {signal.subject.name for signal in lost if signal.begin_ns <= errors.begin_ns + 3 * SECOND}
        gone = gone or sorted(early)
    late = case.near(("replicas_out_of_sync",), Relation.TOPIC, errors.begin_ns - case.begin_ns, 30 * SECOND)
    gone = sorted({signal.subject.name for signal in late}) or gone
    names = f" while {listed(gone, NAMED)} {'was' if len(gone) == 1 else 'were'} missing" if gone else ""
    topic = listed(errors.topics, NAMED) or errors.subject.name
    count = counted(errors.measures["count"], "write")
    lasted = (
        "to the end of the capture"
        if errors.end_ns is None
        else format_duration(errors.measures["lasted_ns"])
    )
    return Diagnosis(
        Subject(kind=SubjectKind.TOPIC, name=errors.topics[0]) if errors.topics else errors.subject,
        errors.begin_ns,
        errors.end_ns,
        f"Topic {topic} has too few in-sync replicas since {format_clock(errors.begin_ns)}{names}: "
        f"{count} of {counted(len(errors.clients), 'client')} refused, {lasted}",
        0.95,
        (errors,),
        speaks_for=("brokers refuse writes with NOT_ENOUGH_REPLICAS",),
    )


def follower_behind(case: Case) -> Diagnosis | None:
    """A replica fetcher sends no Fetch to a leader for a while."""
    silent = case.anchor
    around = [silent, *case.near((silent.kind,), Relation.SERVER, 15 * SECOND, 15 * SECOND)]
    broken = Counter(name for signal in around for name in signal.servers)
    if broken[silent.subject.name] < max(broken.values()):
        return None
    lasted = format_duration(silent.measures["silent_ns"])
    ending = f"for {lasted}" if silent.end_ns is not None else f"for {lasted}, to the end of the capture"
    leader = listed([name for name in silent.servers if name != silent.subject.name], NAMED)
    name = silent.subject.name
    return Diagnosis(
        silent.subject,
        min(signal.begin_ns for signal in around),
        silent.end_ns,
        f"{capitalized(name)} fetched nothing from {leader} from {format_clock(silent.begin_ns)} "
        f"{ending}: its replicas fall behind",
        0.75,
        tuple(around),
        speaks_for=("both brokers talk to others meanwhile",),
    )
