"""Causes that lie between a leader and its followers.

broker_fenced      a broker lost its controller, and does not know that others lead its partitions
follower_behind    a replica fetcher sends no Fetch to a leader for a while
"""

from collections import Counter
from collections.abc import Sequence

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal
from kdissect.report.wording import capitalized, counted, for_so_long, listed
from kdissect.text import format_clock

CRITICAL, WARNING, NOTE = Severity
NAMED = 3

FENCED_NS = 60 * SECOND
"""Clients notice a broker that lost its controller when their requests time out, after 30 s by default."""

TOLD_NS = 60 * SECOND
"""Clients may ask for metadata so long after something changed."""

LATENCY = ("latency_rose", "client_latency_rose", "topic_latency_rose")
REPLICAS = ("leaders_moved", "replicas_out_of_sync")
"""Signals of Metadata about a broker that is gone or behind: it may come much later."""


def broker_fenced(case: Case) -> Diagnosis | None:
    """A broker does not know that its partitions have other leaders: it refuses nobody for that."""
    own = case.anchor
    knows = ("connections_ended", "attempts_refused", "leadership_left", "path_silent", "server_silent")
    if case.near(knows, Relation.SERVER, FENCED_NS, FENCED_NS):
        return None
    waiting = case.near(("requests_open",), Relation.SUBJECT, FENCED_NS, FENCED_NS)
    if own.kind == "leaders_moved" and not waiting:
        return None
    requests = sum(one.requests for one in waiting)
    verb = "waits" if requests == 1 else "wait"
    what = f"{counted(requests, 'request')} to it {verb}; {own.sentence}"
    return Diagnosis(
        own.subject,
        min(one.begin_ns for one in (own, *waiting)),
        None,
        f"{capitalized(own.subject.name)} lost its controller at {format_clock(own.begin_ns)} or before, and "
        f"serves on as if it led: {what if waiting else own.sentence}",
        0.75,
        (own, *waiting),
        speaks_for=("it keeps its connections, and refuses nobody as the wrong leader",),
    )


def follower_behind(case: Case) -> Diagnosis | None:
    """A replica fetcher sends no Fetch to a leader for a while."""
    silent = case.anchor
    around = [silent, *case.near((silent.kind,), Relation.SERVER, 15 * SECOND, 15 * SECOND)]
    broken = Counter(name for signal in around for name in signal.servers)
    if broken[silent.subject.name] < max(broken.values()):
        return None
    leaders = [name for name in silent.servers if name != silent.subject.name]
    told = case.near(("replicas_out_of_sync",), Relation.SERVER, SECOND, TOLD_NS)
    for out_of_sync in told:
        if out_of_sync.subject.name in leaders:
            return _leads_no_more(silent, out_of_sync)
    return _behind(silent, around, listed(leaders, NAMED))


def _behind(silent: Signal, around: Sequence[Signal], leader: str) -> Diagnosis:
    return Diagnosis(
        silent.subject,
        min(signal.begin_ns for signal in around),
        silent.end_ns,
        f"{capitalized(silent.subject.name)} fetched nothing from {leader} from "
        f"{format_clock(silent.begin_ns)} {_lasted(silent)}: its replicas fall behind",
        0.75,
        tuple(around),
        speaks_for=("both brokers talk to others meanwhile",),
    )


def _leads_no_more(silent: Signal, out_of_sync: Signal) -> Diagnosis:
    """Return that a broker lost its partitions: as their leader it would be in sync."""
    name, since = capitalized(out_of_sync.subject.name), format_clock(silent.begin_ns)
    return Diagnosis(
        out_of_sync.subject,
        silent.begin_ns,
        out_of_sync.end_ns,
        f"{name} fell out of the cluster at {since} or before: "
        f"{silent.subject.name} fetched nothing from it {_lasted(silent)}, and {out_of_sync.sentence}",
        0.75,
        (silent, out_of_sync),
        speaks_for=("a leader is always in sync, so others lead its partitions now",),
        speaks_against=("it may have followed others in those partitions all the time",),
    )


def _lasted(silent: Signal) -> str:
    return for_so_long(silent.measures["silent_ns"], silent.end_ns is not None)


REPLICA_CAUSES = (
    Cause(
        name="broker_fenced",
        layer=Layer.CLUSTER,
        severity=CRITICAL,
        anchors=("leader_deserted", "leaders_moved"),
        judge=broker_fenced,
        links=(
            Link(
                ("requests_open", "follower_silent", "leader_deserted", *LATENCY, *REPLICAS),
                Relation.SERVER,
                FENCED_NS,
                FENCED_NS,
            ),
            Link(
                ("unanswered_timeout", "unanswered_cut", "leader_moved"),
                Relation.SERVER,
                FENCED_NS,
                FENCED_NS,
            ),
        ),
        needs="all followers stop to fetch from a broker within a second, or Metadata tells that its "
        "partitions moved away, while it keeps its connections, refuses nobody for it, and takes writes or "
        "leaves requests open",
        against="its connections end, nothing arrives from it, or it says that it leads no more",
        means="The broker does not reach its controller, which has given its partitions to others. It does "
        "not know: writes with acks=all wait for followers that have left, with acks=1 they will be lost.",
        next="the path from this broker to the controllers (their listener and port); its log",
    ),
    Cause(
        name="follower_behind",
        layer=Layer.CLUSTER,
        severity=WARNING,
        anchors=("follower_silent",),
        judge=follower_behind,
        links=(
            Link(
                ("follower_silent", "connections_ended", "leader_moved", "leadership_left"), Relation.SERVER
            ),
            Link(REPLICAS, Relation.SERVER, SECOND, TOLD_NS),
            Link((*LATENCY, "commit_failed"), Relation.ANYWHERE, 2 * SECOND),
            # Writes with acks=all, commits and joins wait at the leader until the follower has them.
            Link(("requests_open", "unanswered_timeout"), Relation.SERVER, 2 * SECOND, 30 * SECOND),
            Link(("replicas_missing", "errors_repeated", "retriable_errors_lasted"), Relation.SERVER),
        ),
        needs="a replica fetcher sends no Fetch to a leader for 3 s or more, while both brokers go on",
        against="one of the brokers died, froze or cannot be reached by anybody",
        means="The follower does not copy what is written. It leaves the in-sync replicas after "
        "replica.lag.time.max.ms, and writes with acks=all wait for it until then. If Metadata says that the "
        "leader itself is out of sync, others lead in its place, as for a broker that does not reach its "
        "controller.",
        next="the path between the two brokers; the follower's log and disks; under-replicated partitions; "
        "if the leader is out of sync, its path to the controllers",
    ),
)
