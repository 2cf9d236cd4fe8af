"""Causes that lie with the cluster: elections, coordinators, replicas.

leader_election             partitions got another leader while both brokers went on
coordinator_moved           groups got another coordinator while both brokers went on
too_few_in_sync_replicas    writes are refused since replicas are missing
partition_without_leader    a topic has no leader, for longer than an election takes
coordinator_missing         groups or transactions have no coordinator, for longer than a move takes
"""

from collections.abc import Sequence

from kdissect.protocol.error_codes import COORDINATOR_ERRORS, LEADER_MOVED, error_name
from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.incidents.client_links import FOLLOWS_A_CLIENT, LED_BY_CLIENTS, joined, stated
from kdissect.report.incidents.network_causes import EVER
from kdissect.report.incidents.replica_causes import REPLICAS
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.wording import TO_THE_END, capitalized, counted, lasting, listed
from kdissect.text import format_clock, format_duration

CRITICAL, WARNING, NOTE = Severity

ELECTED_THINGS = 2
ELECTED_CLIENTS = 2
EARLY_NS = 3 * SECOND
"""In the first seconds of a capture clients still learn who leads: errors of that time tell of no move."""

APART_NS = 15 * SECOND
"""Clients back off: the search for a coordinator of one group and of another may begin so far apart."""

NAMED = 3


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
    ends = [signal.end_ns for signal in core if signal.end_ns is not None]
    return lasting(min(signal.begin_ns for signal in core), max(ends) if len(ends) == len(core) else None)


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
    lasted = TO_THE_END if errors.end_ns is None else format_duration(errors.measures["lasted_ns"])
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
