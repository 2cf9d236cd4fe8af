"""Causes that lie with clients and topics: refusals that name their reason, quotas, storms, uneven load."""

from collections.abc import Callable

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.incidents.client_links import (
    FOLLOWS_A_CLIENT,
    OF_GROUPS,
    OF_REFUSALS,
    WORSE_NS,
    joined,
    stated,
)
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock

CRITICAL, WARNING, NOTE = Severity
REASONS = (
    "credentials_refused",
    "mechanism_refused",
    "closed_after_acks_none",
    "authentication_failed",
    "login_absent",
    "login_out_of_turn",
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

GOT_WORSE = (
    "service_worsened",
    "client_latency_rose",
    "connection_churn",
    "offset_repeated",
    "slow_transfer",
    "tls_handshake_failed",
    "kafka_4_refuses",
    "batches_tiny",
    "errors_repeated",
    "lag_grew",
    *OF_GROUPS,
    "metadata_storm_began",
    "connections_storm",
    "retries_storm",
    *OF_REFUSALS,
)
NAMED = 3
MANY_COMMITS = 200
"""Commits a second of one consumer that are too many even if no latency shows it."""

A_BATCH = 1.1
"""Commits for each partition that a fetch returns records of; some libraries commit once after it."""

FELT_NS = 5 * SECOND
"""Latency that rises within this of the first commits may be their consequence."""


def storm(confidence: float) -> Callable[[Case], Diagnosis | None]:
    """Return a function that takes the anchor for the cause, unless its client is refused for a reason."""

    def judge(case: Case) -> Diagnosis | None:
        if case.near(REASONS, Relation.CLIENT, 10 * SECOND, 10 * SECOND):
            return None
        return stated(confidence)(case)

    return judge


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


def missing_topic(case: Case) -> Diagnosis | None:
    """A topic is unknown to the brokers; one that was there before is gone for all of its clients."""
    own = case.anchor
    if not own.measures["was_there"]:
        return stated(0.9)(case)
    near = case.near((own.kind,), Relation.TOPIC, WORSE_NS, WORSE_NS)
    core = (own, *(one for one in near if one.measures["was_there"]))
    begin = min(one.begin_ns for one in core)
    topics = sorted({topic for one in core for topic in one.topics})
    verb = "is" if len(topics) == 1 else "are"
    clients = sorted({client for one in core for client in one.clients})
    return joined(
        core,
        Subject(kind=SubjectKind.TOPIC, name=topics[0]),
        f"Topic {listed(topics, NAMED)} {verb} gone since {format_clock(begin)}, and was there before: "
        f"{counted(sum(one.measures['count'] for one in core), 'request')} of {listed(clients, NAMED)} "
        "refused with UNKNOWN_TOPIC_OR_PARTITION",
        0.9,
        "its records were written or read before",
    )


def deployment(case: Case) -> Diagnosis | None:
    """The software of a client changed, and something of that client got worse within a minute."""
    changed = case.anchor
    worse = [
        signal
        for signal in case.near(GOT_WORSE, Relation.CLIENT, SECOND, WORSE_NS)
        if signal.begin_ns >= changed.begin_ns - SECOND and not _passed(signal)
    ]
    if not worse:
        return None
    first = min(worse, key=lambda signal: (signal.kind != "service_worsened", signal.begin_ns))
    return Diagnosis(
        changed.subject,
        changed.begin_ns,
        None,
        f"{changed.sentence}, and since then: {first.sentence}",
        0.98,
        (changed, *worse),
        speaks_for=("nothing of the kind was there before the new version",),
    )


def _passed(signal: Signal) -> bool:
    """Return whether latency fell again, though the new version went on: it was not the reason."""
    return signal.kind == "client_latency_rose" and signal.end_ns is not None


def _versions(refused: Signal) -> str:
    """Return the words about who uses which version: the evidence has the client and the versions."""
    client, _, versions = refused.sentence.partition(": ")
    return f"{client} uses versions that brokers no longer speak: {versions}"


def unsupported_version(case: Case) -> Diagnosis | None:
    """Requests in versions that brokers do not know any more, on connections that end without an answer."""
    refused = case.anchor
    cut = case.near(("unanswered_cut", "errors_repeated"), Relation.CLIENT, SECOND, 30 * SECOND)
    if not cut:
        return None
    return Diagnosis(
        refused.subject,
        refused.begin_ns,
        refused.end_ns,
        f"{_versions(refused)}; {counted(sum(one.requests for one in cut), 'request')} got no response "
        f"from {format_clock(refused.begin_ns)} on, as brokers of Kafka 4.0 close the connection instead",
        0.8,
        (refused, *cut),
    )


CLIENT_CAUSES = (
    Cause(
        name="deployment",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("software_changed",),
        judge=deployment,
        links=(
            *FOLLOWS_A_CLIENT,
            Link(
                ("latency_rose", "client_latency_rose", "topic_latency_rose"), Relation.ANYWHERE, 0, WORSE_NS
            ),
        ),
        needs="the software version of a client changes (as its requests or its client id name it), and its "
        "requests fail, take longer, become many more for the same records, or its groups get worse within "
        "a minute",
        against="nothing gets worse, or latency falls again while the new version goes on: a deployment is "
        "no incident",
        means="The new version of the client, or its settings, behaves worse than the one before.",
        next="what changed between the two versions; going back to the one before",
    ),
    Cause(
        name="quota",
        layer=Layer.SERVER,
        severity=WARNING,
        anchors=("quota_applied",),
        judge=stated(0.95),
        links=(
            *FOLLOWS_A_CLIENT,
            Link(("latency_rose", "slow_broker"), Relation.CLIENT, 3 * SECOND, 30 * SECOND),
        ),
        needs="responses ask a client to wait, three times and 0.5 s or more",
        against="",
        means="A quota makes the client wait: its latency comes from the quota, not from load.",
        next="kafka-configs --describe for this client id and user; what it needs",
    ),
    Cause(
        name="record_too_large",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("records_oversized",),
        judge=stated(0.95),
        links=FOLLOWS_A_CLIENT,
        needs="batches are refused for their size",
        against="",
        means="The topic or the broker takes smaller batches than this producer sends; the "
        "records are not stored.",
        next="max.request.size and batch.size of the producer against max.message.bytes of the topic",
    ),
    Cause(
        name="invalid_timestamp",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("timestamps_refused",),
        judge=stated(0.95),
        links=FOLLOWS_A_CLIENT,
        needs="records are refused for their time",
        against="",
        means="The producer's clock or its timestamps are further off than the topic allows; "
        "the records are lost.",
        next="the clock of the producer's host; message.timestamp.before.max.ms and "
        "after.max.ms of the topic",
    ),
    Cause(
        name="setting_refused",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("settings_refused",),
        judge=stated(0.95),
        links=FOLLOWS_A_CLIENT,
        needs="a broker refuses a name or a setting of a client, twice",
        against="",
        means="The client asks for what no broker of this cluster allows, such as the name of a topic, a "
        "timeout or a codec. To try again does not help.",
        next="the setting that the error names, against the limits of the brokers",
    ),
    Cause(
        name="topic_recreated",
        layer=Layer.CLUSTER,
        severity=WARNING,
        anchors=("topic_recreated",),
        judge=stated(0.95),
        links=(
            Link(
                ("errors_repeated", "topic_missing", "offsets_gone", "leadership_left", "leader_moved"),
                Relation.TOPIC,
                10 * SECOND,
                30 * SECOND,
            ),
            *FOLLOWS_A_CLIENT,
        ),
        needs="a topic has two ids in the capture, and requests for it are refused although it had records",
        against="",
        means="Somebody deleted the topic and created it again. Its old records are gone, and clients begin "
        "again at its first offset, or where auto.offset.reset says.",
        next="who deleted the topic, and why; the offsets that groups have committed for it",
    ),
    Cause(
        name="missing_topic",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("topic_missing",),
        judge=missing_topic,
        links=FOLLOWS_A_CLIENT,
        needs="a client asks for a topic that is unknown, four times over 3 s or more",
        against="the topic is used later: it was created meanwhile",
        means="The topic does not exist under this name, was deleted, or the client may not see it.",
        next="the name in the client's settings; auto.create.topics.enable",
    ),
    Cause(
        name="unsupported_version",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("kafka_4_refuses",),
        judge=unsupported_version,
        links=FOLLOWS_A_CLIENT,
        needs="a client uses versions that Kafka 4.0 removed, and its connections end without an answer",
        against="the broker answers them: it is older",
        means="The client is too old for the broker: Kafka 4.0 removed these versions (KIP-896).",
        next="the version of the client's library; broker.version.fallback",
    ),
    Cause(
        name="retry_storm",
        layer=Layer.CLUSTER,
        severity=WARNING,
        anchors=("retries_storm",),
        judge=storm(0.95),
        links=FOLLOWS_A_CLIENT,
        needs="a client repeats requests that are refused with a retriable error, 15 times a second or more",
        against="",
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
