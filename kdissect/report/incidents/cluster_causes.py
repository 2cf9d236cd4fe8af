"""Causes that lie with the cluster: elections, coordinators, replicas.

leader_election             partitions got another leader while both brokers went on
coordinator_moved           groups got another coordinator while both brokers went on
too_few_in_sync_replicas    writes are refused since replicas are missing
partition_without_leader    a topic has no leader, for longer than an election takes
coordinator_missing         groups or transactions have no coordinator, for longer than a move takes
"""

from collections import Counter
from collections.abc import Sequence

from kdissect.protocol.error_codes import COORDINATOR_ERRORS, LEADER_MOVED, error_name
from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.incidents.client_links import FOLLOWS_A_CLIENT, LED_BY_CLIENTS, joined, stated
from kdissect.report.incidents.network_causes import EVER
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.wording import capitalized, counted, listed
from kdissect.text import format_clock, format_duration

CRITICAL, WARNING, NOTE = Severity

ELECTED_THINGS = 2
ELECTED_CLIENTS = 2
EARLY_NS = 3 * SECOND
"""In the first seconds of a capture clients still learn who leads: errors of that time tell of no move."""

APART_NS = 15 * SECOND
"""Clients back off: the search for a coordinator of one group and of another may begin so far apart."""

FENCED_NS = 60 * SECOND
"""Clients notice a broker that lost its controller when their requests time out, after 30 s by default."""

NAMED = 3
LATENCY = ("latency_rose", "client_latency_rose", "topic_latency_rose")
REPLICAS = ("leaders_moved", "replicas_out_of_sync")
"""Signals of Metadata about a broker that is gone or behind: it may come much later."""


def leader_election(case: Case) -> Diagnosis | None:
    """Servers refuse partitions that they led, and several clients or followers learn it."""
    left = case.anchor
    measures = left.measures
    around = case.near(("leadership_left",), Relation.TOPIC, SECOND, SECOND)
    elected = measures["things"] + sum(one.measures["things"] for one in around)
    if elected < ELECTED_THINGS or measures["clients"] < ELECTED_CLIENTS:
        return None
    if left.begin_ns - case.begin_ns < EARLY_NS:
        return None
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
        f"{format_clock(begin)}, while that broker went on: {counted(left.requests, 'request')} of "
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
        f"{format_clock(left.begin_ns)}, while that broker went on: {counted(left.requests, 'request')} of "
        f"{counted(left.measures['clients'], 'client')} refused",
        0.7,
        (left,),
    )


def too_few_in_sync_replicas(case: Case) -> Diagnosis | None:
    """Writes are refused with NOT_ENOUGH_REPLICAS."""
    errors = case.anchor
    gone = _missing_brokers(case)
    late = case.near(("replicas_out_of_sync",), Relation.TOPIC, errors.begin_ns - case.begin_ns, 30 * SECOND)
    gone = sorted({signal.subject.name for signal in late}) or gone
    sentence = _topic_sentence(errors, "has too few in-sync replicas", gone, "write")
    return _of_topic(errors, sentence, 0.95, "brokers refuse writes with NOT_ENOUGH_REPLICAS")


def partition_without_leader(case: Case) -> Diagnosis | None:
    """Metadata names no leader for a topic, for longer than an election takes."""
    errors = case.anchor
    sentence = _topic_sentence(errors, "has no leader", _missing_brokers(case), "request")
    return _of_topic(errors, sentence, 0.9, "brokers answer with LEADER_NOT_AVAILABLE")


def coordinator_missing(case: Case) -> Diagnosis | None:
    """Groups or transactional ids have no coordinator, or one that stays busy with loading."""
    own = case.anchor
    core = (own, *case.near((own.kind,), Relation.ANYWHERE, APART_NS, APART_NS))
    begin = min(signal.begin_ns for signal in core)
    groups = sorted({group for signal in core for group in signal.groups})
    clients = sorted({client for signal in core for client in signal.clients})
    if groups:
        who = f"{'Group' if len(groups) == 1 else 'Groups'} {listed(groups, NAMED)}"
        subject = Subject(kind=SubjectKind.GROUP, name=groups[0])
    else:
        who, subject = f"Transactions of {listed(clients, NAMED)}", own.subject
    gone = _missing_brokers(case, ("connections_ended", "attempts_refused"))
    away = f" while {listed(gone, NAMED)} {'was' if len(gone) == 1 else 'were'} missing" if gone else ""
    errors = sorted({error_name(signal.measures["code"]) for signal in core})
    return joined(
        core,
        subject,
        f"{who} {'has' if len(groups) == 1 else 'have'} no coordinator since {format_clock(begin)}{away}: "
        f"{counted(sum(signal.measures['count'] for signal in core), 'request')} of "
        f"{counted(len(clients), 'client')} refused with {listed(errors, NAMED)}, {_until(core)}",
        0.9,
        "brokers say so for longer than a move of a coordinator takes",
    )


def _until(core: Sequence[Signal]) -> str:
    """Return how long signals last together, as the end of a sentence."""
    if any(signal.end_ns is None for signal in core):
        return "to the end of the capture"
    begin, end = min(signal.begin_ns for signal in core), max(signal.end_ns or 0 for signal in core)
    return f"for {format_duration(end - begin)}"


def _missing_brokers(
    case: Case, kinds: Sequence[str] = ("connections_ended", "follower_silent", "attempts_refused")
) -> list[str]:
    """Return the servers that were lost before the errors began, by the best evidence that there is."""
    latest = case.anchor.begin_ns + 3 * SECOND
    for kind in kinds:
        lost = case.near((kind,), Relation.ANYWHERE, 10 * SECOND, 0)
        if early := sorted({signal.subject.name for signal in lost if signal.begin_ns <= latest}):
            return early
    return []


def _topic_sentence(errors: Signal, state: str, gone: Sequence[str], noun: str) -> str:
    names = f" while {listed(gone, NAMED)} {'was' if len(gone) == 1 else 'were'} missing" if gone else ""
    topic = listed(errors.topics, NAMED) or errors.subject.name
    lasted = (
        "to the end of the capture"
        if errors.end_ns is None
        else format_duration(errors.measures["lasted_ns"])
    )
    return (
        f"Topic {topic} {state} since {format_clock(errors.begin_ns)}{names}: "
        f"{counted(errors.measures['count'], noun)} of {counted(len(errors.clients), 'client')} refused, "
        f"{lasted}"
    )


def _of_topic(errors: Signal, sentence: str, confidence: float, reason: str) -> Diagnosis:
    subject = Subject(kind=SubjectKind.TOPIC, name=errors.topics[0]) if errors.topics else errors.subject
    return Diagnosis(
        subject, errors.begin_ns, errors.end_ns, sentence, confidence, (errors,), speaks_for=(reason,)
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


def broker_fenced(case: Case) -> Diagnosis | None:
    """A broker does not know that its partitions have other leaders: it refuses nobody for that."""
    own = case.anchor
    knows = ("connections_ended", "attempts_refused", "leadership_left", "path_silent", "server_silent")
    if case.near(knows, Relation.SERVER, FENCED_NS, FENCED_NS):
        return None
    waiting = case.near(("requests_open",), Relation.SUBJECT, FENCED_NS, FENCED_NS)
    if own.kind == "leaders_moved" and not waiting:
        return None
    what = f"{counted(sum(one.requests for one in waiting), 'request')} to it wait; {own.sentence}"
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


def clusters_mixed(case: Case) -> Diagnosis:
    """A server lacks topics that others serve."""
    plain = stated(0.85)(case)
    return plain._replace(
        headline=capitalized(plain.headline),
        speaks_for=("all brokers of a cluster know of all topics, and others serve these",),
        speaks_against=("a broker that is cut off from its controller does not know new topics, either",),
    )


CLUSTER_CAUSES = (
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
        name="clusters_mixed",
        layer=Layer.CLUSTER,
        severity=CRITICAL,
        anchors=("topic_elsewhere",),
        judge=clusters_mixed,
        links=(
            Link(("topic_missing", "errors_repeated", "retriable_errors_lasted"), Relation.SERVER),
            *FOLLOWS_A_CLIENT,
        ),
        needs="a server answers UNKNOWN_TOPIC_OR_PARTITION four times or more, over 3 s or more, for a topic "
        "that it never serves, and that other servers serve meanwhile",
        against="the topic was created or deleted meanwhile",
        means="Clients are sent to a broker of another cluster: by their bootstrap servers, a name, or a "
        "load balancer. Or the broker is cut off from the controller of its own.",
        next="bootstrap.servers of these clients, and what the address stands for; the cluster id of that "
        "broker (kafka-cluster cluster-id)",
    ),
    Cause(
        name="too_few_in_sync_replicas",
        layer=Layer.CLUSTER,
        severity=CRITICAL,
        anchors=("replicas_missing",),
        judge=too_few_in_sync_replicas,
        links=(
            Link(("replicas_missing", "errors_repeated", "retriable_errors_lasted"), Relation.TOPIC),
            Link(("errors_repeated", "retriable_errors_lasted", *LED_BY_CLIENTS), Relation.CLIENT),
            Link(("empty_fetch_loop",), Relation.ANYWHERE),
            Link(REPLICAS, Relation.TOPIC, EVER),
        ),
        needs="writes refused with NOT_ENOUGH_REPLICAS",
        against="",
        means="min.insync.replicas is more than the replicas that are in sync, so the topic cannot be "
        "written with acks=all.",
        next="which broker is missing or behind; min.insync.replicas and the replication factor of the topic",
    ),
    Cause(
        name="partition_without_leader",
        layer=Layer.CLUSTER,
        severity=CRITICAL,
        anchors=("leader_missing",),
        judge=partition_without_leader,
        links=(
            Link(("leader_missing", "errors_repeated", "retriable_errors_lasted"), Relation.TOPIC),
            Link(("errors_repeated", "retriable_errors_lasted", *LED_BY_CLIENTS), Relation.CLIENT),
            Link(
                ("metadata_storm", "refused_connections", "leader_moved"),
                Relation.CLIENT,
                10 * SECOND,
                30 * SECOND,
            ),
            Link(REPLICAS, Relation.TOPIC, EVER),
        ),
        needs="Metadata says LEADER_NOT_AVAILABLE for a topic, for 6 s or more",
        against="",
        means="No replica of some partitions may lead: those that have all records are on brokers that are "
        "down. The partitions can be neither written nor read.",
        next="kafka-topics --describe --unavailable-partitions; start the brokers that hold the replicas; "
        "only if their records may be lost, elect another replica (unclean leader election)",
    ),
    Cause(
        name="coordinator_missing",
        layer=Layer.CLUSTER,
        severity=CRITICAL,
        anchors=("coordinator_missing",),
        judge=coordinator_missing,
        links=(
            Link(("errors_repeated",), Relation.GROUP, APART_NS, APART_NS, COORDINATOR_ERRORS),
            Link(("coordinator_left", "commit_failed", "rebalance_storm", "member_lost"), Relation.GROUP),
            Link(("retriable_errors_lasted", *LED_BY_CLIENTS), Relation.CLIENT, APART_NS, 30 * SECOND),
        ),
        needs="requests of a group or a transactional id, or the search for its coordinator, are refused "
        "with COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS, for 8 s or more",
        against="a broker died or was stopped: then its coordinators move",
        means="The partition of __consumer_offsets or __transaction_state that holds it has no leader, "
        "cannot be created, or is still being read. Members can neither join nor commit.",
        next="kafka-topics --describe for these two topics; offsets.topic.replication.factor and "
        "transaction.state.log.replication.factor against the number of brokers; the log of the coordinator",
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
            Link(REPLICAS, Relation.SERVER, SECOND, 60 * SECOND),
            Link((*LATENCY, "commit_failed"), Relation.ANYWHERE, 2 * SECOND),
            # Writes with acks=all, commits and joins wait at the leader until the follower has them.
            Link(("requests_open", "unanswered_timeout"), Relation.SERVER, 2 * SECOND, 30 * SECOND),
            Link(("replicas_missing", "errors_repeated", "retriable_errors_lasted"), Relation.SERVER),
        ),
        needs="a replica fetcher sends no Fetch to a leader for 3 s or more, while both brokers go on",
        against="one of the brokers died, froze or cannot be reached by anybody",
        means="The follower does not copy what is written. It leaves the in-sync replicas after "
        "replica.lag.time.max.ms, and writes with acks=all wait for it until then.",
        next="the path between the two brokers; the follower's log and disks; under-replicated partitions",
    ),
    Cause(
        name="leader_election",
        layer=Layer.CLUSTER,
        severity=WARNING,
        anchors=("leadership_left",),
        judge=leader_election,
        links=(
            Link(("leadership_left", "leader_moved", "retriable_errors_lasted"), Relation.TOPIC),
            Link(("leaders_moved",), Relation.TOPIC, 5 * SECOND, 30 * SECOND),
            Link(("errors_repeated",), Relation.TOPIC, SECOND, 5 * SECOND, LEADER_MOVED),
            Link(("leader_moved", "coordinator_left", "commit_failed", "empty_fetch_loop"), Relation.CLIENT),
        ),
        needs="a server refuses partitions that it led, and two or more clients learn it; with those of "
        "other servers at that moment, as followers learn it, they are two or more",
        against="its connections end: then it was stopped or died",
        means="Partitions got another leader while the brokers went on: a preferred leader was elected, or "
        "partitions were reassigned.",
        next="who ran an election or a reassignment; auto.leader.rebalance.enable",
    ),
    Cause(
        name="coordinator_moved",
        layer=Layer.CLUSTER,
        severity=WARNING,
        anchors=("coordinator_left",),
        judge=coordinator_moved,
        links=(
            Link(("coordinator_left", "errors_repeated", "commit_failed"), Relation.GROUP),
            Link(("commit_failed", "retriable_errors_lasted", "unanswered_cut"), Relation.CLIENT),
        ),
        needs="a server refuses a group or a transactional id that it coordinated",
        against="its connections end: then it was stopped or died",
        means="The partition of __consumer_offsets or __transaction_state that holds it got another leader.",
        next="elections at that moment; the brokers that lead these internal topics",
    ),
)
