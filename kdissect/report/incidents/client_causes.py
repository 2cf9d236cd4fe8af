"""Causes that lie with clients and topics: refusals that name their reason, quotas, old versions."""

from kdissect.protocol.error_codes import ErrorCode
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

UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def missing_topic(case: Case) -> Diagnosis | None:
    """A topic is unknown to the brokers; one that was there before is gone for all of its clients."""
    own = case.anchor
    if own.measures["there_later"]:
        return stated(0.9)(case)._replace(severity=NOTE)
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
                (
                    "errors_repeated",
                    "topic_missing",
                    "offsets_gone",
                    "offsets_lost",
                    "leadership_left",
                    "leader_moved",
                ),
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
        links=(
            *FOLLOWS_A_CLIENT,
            Link(("topic_missing",), Relation.TOPIC, 30 * SECOND, 30 * SECOND),
            Link(
                ("retries_storm", "errors_repeated"), Relation.TOPIC, 3 * SECOND, 30 * SECOND, UNKNOWN_TOPIC
            ),
            Link(("retriable_errors_lasted", "commit_failed"), Relation.TOPIC, 3 * SECOND, 30 * SECOND),
        ),
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
)
