"""Causes that lie with what clients do too much of, or unevenly: storms, restarts, commits, tiny batches."""

from collections.abc import Callable

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.incidents.client_links import FOLLOWS_A_CLIENT, stated
from kdissect.report.model.findings import Severity

CRITICAL, WARNING, NOTE = Severity
REASONS = (
    "credentials_refused",
    "mechanism_refused",
    "closed_after_acks_none",
    "authentication_failed",
    "login_absent",
    "login_out_of_turn",
    "sessions_expired",
    "right_missing",
    "topic_missing",
    "protocol_refused",
    "group_kind_refused",
    "settings_refused",
    "tls_failed",
    "tls_refused",
    "kafka_4_refuses",
    "closed_while_waiting",
)
"""Signals of a client that explain why it tries again and again."""

MANY_COMMITS = 200
"""Commits a second of one consumer that are too many even if no latency shows it."""

A_BATCH = 1.1
"""Commits for each partition that a fetch returns records of; some libraries commit once after it."""

REFUSED_FOR_NOW = ("replicas_missing", "leader_missing", "coordinator_missing")
"""Reasons for which a client may repeat a request without end."""

FELT_NS = 5 * SECOND
"""Latency that rises within this of the first commits may be their consequence."""


def storm(confidence: float) -> Callable[[Case], Diagnosis | None]:
    """Return a function that takes the anchor for the cause, unless its client is refused for a reason."""

    def judge(case: Case) -> Diagnosis | None:
        if case.near(REASONS, Relation.CLIENT, 10 * SECOND, 10 * SECOND):
            return None
        return stated(confidence)(case)

    return judge


def retry_storm(case: Case) -> Diagnosis | None:
    """A client repeats refused requests at once, and nobody else is refused for the same reason."""
    refused = case.near(REFUSED_FOR_NOW, Relation.CLIENT, 10 * SECOND, 30 * SECOND)
    missing = case.near(("topic_missing",), Relation.TOPIC, 10 * SECOND, 30 * SECOND)
    return None if missing or any(len(one.clients) > 1 for one in refused) else storm(0.95)(case)


def commit_storm(case: Case) -> Diagnosis | None:
    """A consumer commits all the time: a habit of some libraries, unless it is extreme or brokers feel it."""
    plain, commits = storm(0.85)(case), case.anchor
    if plain is None:
        return None
    count, batches, lasted = (commits.measures[name] for name in ("count", "batches", "lasted_ns"))
    extreme = count * SECOND >= MANY_COMMITS * max(lasted, SECOND) or count > A_BATCH * batches
    slowed = case.near(("latency_rose", "client_latency_rose"), Relation.SERVER, FELT_NS, 0)
    slowed += case.near(("requests_open",), Relation.CLIENT, FELT_NS, 0)
    if not extreme and not any(one.begin_ns - commits.begin_ns <= FELT_NS for one in slowed):
        return plain._replace(severity=NOTE)
    return plain


LOAD_CAUSES = (
    Cause(
        name="retry_storm",
        layer=Layer.CLUSTER,
        severity=WARNING,
        anchors=("retries_storm",),
        judge=retry_storm,
        links=(*FOLLOWS_A_CLIENT, Link(REFUSED_FOR_NOW, Relation.CLIENT, 10 * SECOND, 30 * SECOND)),
        needs="a client repeats requests that are refused with a retriable error, 15 times a second or more",
        against="others are refused for the same: too few replicas, no leader, no coordinator; the topic is "
        "not there",
        means="The client tries again without a pause, which helps nobody and costs the broker.",
        next="retry.backoff.ms of the client; the error itself",
    ),
    Cause(
        name="request_timeout_short",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("closed_while_waiting",),
        judge=stated(0.9),
        links=FOLLOWS_A_CLIENT,
        needs="a client closes eight connections or more at one age, and its fetches, which wait as they ask "
        "for, last longer than that",
        against="the fetches are answered late: then the server is slow",
        means="The client gives each request less time than it lets the broker wait for records, so each "
        "quiet moment costs a connection.",
        next="request.timeout.ms of the client against fetch.max.wait.ms; timeouts of sockets and proxies",
    ),
    Cause(
        name="connection_storm",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("connections_storm",),
        judge=storm(0.85),
        links=FOLLOWS_A_CLIENT,
        needs="a client opens 4 connections a second or more, for 5 s or more",
        against="a wrong password, or a server that is gone",
        means="Each connection costs a handshake and a login; clients are meant to keep them.",
        next="clients that are created for each message; health checks",
    ),
    Cause(
        name="restart_loop",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("client_restarts",),
        judge=storm(0.8),
        links=FOLLOWS_A_CLIENT,
        needs="a producer of one client id and host ends within 30 s after it started, five times in a row, "
        "and is back soon each time",
        against="a server closed its connections, or its requests are refused",
        means="The process does not stay alive, or a producer is made anew for each piece of work.",
        next="the log of the process, its supervisor and its memory; one producer for the life of a process",
    ),
    Cause(
        name="metadata_storm",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("metadata_storm_began",),
        judge=storm(0.85),
        links=FOLLOWS_A_CLIENT,
        needs="a client asks for metadata 8 times a second or more, for 5 s or more",
        against="a topic that is missing, or has no leader",
        means="A client needs metadata every few minutes; this one keeps asking.",
        next="what the client does in a loop: listing topics, creating clients",
    ),
    Cause(
        name="admin_storm",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("queries_storm",),
        judge=storm(0.85),
        links=FOLLOWS_A_CLIENT,
        needs="a client sends 20 or more queries a second for 5 s or more: about settings, groups, offsets, "
        "topics, rights and the like",
        against="a topic that is missing, or has no leader",
        means="A tool or a library asks brokers the same in a loop, and each answer takes time of a broker.",
        next="what the client does in a loop; how often a monitor or an exporter asks",
    ),
    Cause(
        name="commit_storm",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("commits_storm",),
        judge=commit_storm,
        links=(
            *FOLLOWS_A_CLIENT,
            Link(("latency_rose", "client_latency_rose"), Relation.SERVER, 10 * SECOND, 30 * SECOND),
            Link(("requests_open",), Relation.CLIENT, 10 * SECOND, 30 * SECOND),
        ),
        needs="a consumer commits offsets 40 times a second or more, for 5 s or more",
        against="its commits are refused; below 200 a second, one for each fetched batch, and without a "
        "latency that rises, it is a note: some libraries commit after each batch",
        means="Each commit is a write to the log of the coordinator, with all its replicas.",
        next="the consumer's code: a commit after each record; commit after each batch or each few seconds",
    ),
    Cause(
        name="transactions_aborted",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("transactions_aborted",),
        judge=stated(0.8),
        links=FOLLOWS_A_CLIENT,
        needs="a producer aborts eight transactions in a row or more, and commits none between them",
        against="the producer was fenced, or its requests are refused",
        means="Nothing that this producer writes is ever seen by readers of committed records.",
        next="the log of the producer: the error for which it aborts",
    ),
    Cause(
        name="hot_partition",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("partition_hot",),
        judge=stated(0.8),
        links=(Link(("lag_grew", "batches_tiny", "not_compressed"), Relation.TOPIC),),
        needs="a partition takes 80 % or more of the bytes of a topic with three partitions or more",
        against="",
        means="Nearly all records have one key, or no key and one partition: its leader and one consumer do "
        "all the work.",
        next="the keys of the records; the partitioner of the producer",
    ),
    Cause(
        name="tiny_batches",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("batches_tiny",),
        judge=stated(0.8),
        links=FOLLOWS_A_CLIENT,
        needs="a producer sends 150 batches a second or more, with fewer than two small records each",
        against="",
        means="Every record is a request of its own: the brokers do the work of requests, not of records.",
        next="linger.ms and batch.size of the producer; flush after each record",
    ),
)
