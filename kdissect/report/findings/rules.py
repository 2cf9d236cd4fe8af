"""The table of rules, in the order of a report among findings of the same severity.

Each rule has a name that stays, its severity, the function that judges, what the finding means, and what to
look at next. Readers are on call: both texts are plain sentences or lists, in the terms that Kafka and its
settings use.
"""

from functools import partial

from kdissect.protocol.error_codes import (
    AUTHORIZATION_ERRORS,
    CORRUPT,
    OVERSIZED,
    PRODUCER_FENCED_OUT,
    SETTING_REFUSED,
    ErrorCode,
)
from kdissect.report.findings import capture, clients, groups, network, responses, security
from kdissect.report.findings.finding_context import FindingRule
from kdissect.report.model.findings import Severity

CRITICAL, WARNING, NOTE = Severity
CONCURRENT = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})

RULES = (
    FindingRule(
        "unanswered_timeout",
        CRITICAL,
        responses.unanswered_timeout,
        "The client, or a device on the path, gave up waiting: the broker hung, was cut off, or the request "
        "was lost.",
        "that broker's log, disks and garbage collection at that time; the network path, if other clients "
        "got responses from it then",
    ),
    FindingRule(
        "authentication_failed",
        CRITICAL,
        security.authentication,
        "These clients have wrong credentials or a mechanism that the listener does not offer; they cannot "
        "work.",
        "the client's credentials and sasl.mechanism; the broker's users, and its log for the reason",
    ),
    FindingRule(
        "tls_failed",
        CRITICAL,
        security.tls_failed,
        "Client and server could not agree on a protected connection: certificates, names, versions or "
        "cipher suites.",
        "which side sent the alert: that side rejected the other; certificates and their dates; the "
        "protocol of the listener",
    ),
    FindingRule(
        "corrupt_records",
        CRITICAL,
        partial(responses.errors_by_client, wanted=CORRUPT, title="Corrupt or invalid records"),
        "A broker refused records or could not read its own: bad checksum, bad timestamp or failed "
        "validation.",
        "if one client is affected: its memory, its software, proxies on the path; if many clients of one "
        "broker are: its disks; the broker's log",
    ),
    FindingRule(
        "sequence_gap",
        CRITICAL,
        responses.sequence_gap,
        "A batch of an idempotent producer is missing, or the broker forgot the producer. If retries do not "
        "fill the gap, records are lost.",
        "what happened to the previous batch (no response, connection closed, refused); the producer's log; "
        "producer.id.expiration.ms",
    ),
    FindingRule(
        "producer_fenced",
        WARNING,
        partial(
            responses.errors_by_client,
            wanted=PRODUCER_FENCED_OUT,
            title="Producers fenced or out of step with their transaction",
        ),
        "Another producer with the same transactional id took over, or the transaction exceeded its timeout.",
        "whether two instances share a transactional.id; transaction.timeout.ms against the duration of the "
        "work",
    ),
    FindingRule(
        "unanswered_cut",
        WARNING,
        responses.unanswered_cut,
        "The connection ended while a request was under way: a broker stopped or died, or a client ended "
        "abruptly.",
        "the last packets of the connection: who closed it; what other clients of the same broker saw then",
    ),
    FindingRule(
        "refused_connections",
        WARNING,
        clients.refused_connections,
        "Nothing listens at this address: the broker is down or restarting, or the advertised address is "
        "wrong.",
        "whether that broker was down or restarting at that time; advertised.listeners",
    ),
    FindingRule(
        "leader_moved",
        WARNING,
        responses.leader_moved,
        "A broker stopped leading these partitions. Clients send requests to the old leader until they "
        "refresh their metadata.",
        "restarts and elections at that time; metadata.max.age.ms and retry.backoff.ms of the slowest client",
    ),
    FindingRule(
        "retriable_errors_lasted",
        WARNING,
        responses.retriable_lasted,
        "Retries did not help for longer than a metadata refresh takes, so the cause did not go away by "
        "itself.",
        "UNKNOWN_TOPIC_OR_PARTITION: whether the topic exists under that name; NOT_ENOUGH_REPLICAS: in-sync "
        "replicas; otherwise the state of the leader or coordinator",
    ),
    FindingRule(
        "rebalance_storm",
        WARNING,
        groups.rebalance_storm,
        "Members join, leave or expire so often that the group keeps stopping.",
        "what triggered it: restarts, deployments, session.timeout.ms, max.poll.interval.ms; static "
        "membership (group.instance.id)",
    ),
    FindingRule(
        "member_expired",
        WARNING,
        groups.member_expired,
        "The member sent no heartbeat or did not poll in time, or a rebalance continued without it. Others "
        "took over its partitions, and records are processed twice.",
        "the client at that time: pauses, garbage collection, host; max.poll.interval.ms and "
        "max.poll.records against the processing time",
    ),
    FindingRule(
        "commit_failed",
        WARNING,
        groups.commit_failed,
        "Offsets were not stored: after a restart these records are read again.",
        "whether the member was removed or a rebalance ran at that time; otherwise the state of the "
        "coordinator",
    ),
    FindingRule(
        "not_authorized",
        WARNING,
        partial(responses.errors_by_client, wanted=AUTHORIZATION_ERRORS, title="Not authorized"),
        "ACLs do not allow what these clients ask for.",
        "the principal of the client, and the ACLs of the resources it requested",
    ),
    FindingRule(
        "slow_broker",
        WARNING,
        capture.slow_broker,
        "One broker takes several times as long as the others for the same kind of request.",
        "its disks, load and garbage collection; whether it leads more or busier partitions",
    ),
    FindingRule(
        "network_slow",
        NOTE,
        network.network_slow,
        "Segments are lost between these hosts, or the round trip is long. Latency that clients see there "
        "is not caused by the broker.",
        "the path between them: interface errors, duplex, MTU, a WAN or VPN; whether clients can be placed "
        "closer to their brokers",
    ),
    FindingRule(
        "behind_long_poll",
        WARNING,
        network.behind_long_poll,
        "A broker answers the requests of one connection in order, so every request behind a Fetch that "
        "waits for data waits too.",
        "a separate connection for fetching, as common clients have; fetch.max.wait.ms",
    ),
    FindingRule(
        "lag_growing",
        NOTE,
        network.lag_growing,
        "These consumers read more slowly than producers write. Records wait longer and longer until "
        "retention deletes them.",
        "processing time per record; more members or partitions; fetch sizes; rebalances and throttling",
    ),
    FindingRule(
        "records_too_large",
        WARNING,
        partial(responses.errors_by_client, wanted=OVERSIZED, title="Records too large for the topic"),
        "A broker refused batches for their size; the producer drops them, or splits and resends them.",
        "max.request.size and batch.size of the producer against message.max.bytes and max.message.bytes of "
        "the topic",
    ),
    FindingRule(
        "setting_refused",
        WARNING,
        partial(
            responses.errors_by_client, wanted=SETTING_REFUSED, title="Names or settings that brokers refuse"
        ),
        "A client asks for what the broker does not allow, such as the name of a topic, a timeout, a codec "
        "or a number of replicas. To try again does not help.",
        "the setting or the name that the error is about, against the limits of the broker (such as "
        "group.min.session.timeout.ms, transaction.max.timeout.ms) and its policies",
    ),
    FindingRule(
        "transactions_open",
        WARNING,
        groups.transactions_open,
        "Until the transaction ends or times out, consumers of committed records see nothing after it.",
        "whether the producer hangs or died; transaction.timeout.ms; the last stable offset of its "
        "partitions",
    ),
    FindingRule(
        "credentials_readable",
        NOTE,  # a choice of its operators, and no event: a healthy cluster may have made it
        security.readable_login,
        "The secret itself travels in plain text. This capture holds it, and so can anyone on the path.",
        "SASL_SSL instead of SASL_PLAINTEXT, or SCRAM; then change these secrets",
    ),
    FindingRule(
        "controller_moved",
        WARNING,
        responses.controller_moved,
        "The cluster elected another controller; topics, leaders and settings cannot change during the "
        "election.",
        "the log of the controllers at that time; restarts, pauses and the network between them",
    ),
    FindingRule(
        "throttled",
        WARNING,
        responses.throttled,
        "Quotas make these clients wait. Their latency comes from quotas, not from load.",
        "the quotas of this client id or user (kafka-configs --describe) against what it needs; who else "
        "shares them",
    ),
    FindingRule(
        "metadata_storm",
        WARNING,
        clients.metadata_storm,
        "A client needs metadata every few minutes; this one keeps asking, often for a topic that does not "
        "exist or has no leader.",
        "errors of this client; clients that are created for each request",
    ),
    FindingRule(
        "connection_churn",
        WARNING,
        clients.connection_churn,
        "Each connection costs a handshake and a login; clients are meant to keep them.",
        "clients that are created for each message; health checks; idle timeouts of a proxy",
    ),
    FindingRule(
        "empty_fetch_loop",
        WARNING,
        clients.empty_fetches,
        "The consumer does not wait for data, or there are records that followers do not have yet, so "
        "consumers may not read them.",
        "fetch.min.bytes and fetch.max.wait.ms of the client; if it is temporary: replicas that were down "
        "or slow at that time",
    ),
    FindingRule(
        "kafka_4_refuses",
        WARNING,
        clients.refused_by_kafka_4,
        "Kafka 4.0 removed these API versions (KIP-896); clients that negotiate versions may use newer "
        "ones, the others fail.",
        "client versions: Java before 2.1, librdkafka before 1.8, or broker.version.fallback; kdissect "
        "ready lists them all",
    ),
    FindingRule(
        "old_message_format",
        NOTE,
        clients.old_message_format,
        "Records travel in the format before Kafka 0.11: no headers, no idempotence, and converted by the "
        "broker at a cost.",
        "the client's version; message.format.version of the topics",
    ),
    FindingRule(
        "acks_none",
        NOTE,
        clients.acks_none,
        "With acks=0 the broker does not respond: errors and lost records go unnoticed, and an overloaded "
        "broker does not slow the client down.",
        "acks of the producer; acks=1 or all unless records may be lost",
    ),
    FindingRule(
        "clock_steps",
        WARNING,
        capture.clock_steps,
        "The capturing host's clock was set, or packets of several interfaces were merged out of order.",
        "time synchronisation of the capturing host; several interfaces: capture on one, or sort the "
        "packets (reordercap)",
    ),
    FindingRule(
        "capture_loss",
        WARNING,
        capture.capture_loss,
        "Findings about missing responses and errors are uncertain where bytes are missing.",
        "what tcpdump reported when it ended; capture again with whole packets (-s 0), a larger buffer (-B), "
        "a filter on the ports, both directions",
    ),
    FindingRule(
        "transactions_concurrent",
        NOTE,
        partial(
            responses.errors_by_client,
            wanted=CONCURRENT,
            title="Transactions begun before the previous one was completed",
        ),
        "A producer began a transaction while the broker was completing the previous one; it waits and "
        "tries again.",
        "usual in small numbers with short transactions; longer transactions need fewer",
    ),
    FindingRule(
        "acks_leader",
        NOTE,
        clients.acks_leader,
        "The leader responds before followers have the records; if it fails then, they are lost.",
        "acks=all with min.insync.replicas=2 if records must not be lost",
    ),
    FindingRule(
        "tiny_batches",
        NOTE,
        clients.tiny_batches,
        "Overhead per batch outweighs the records.",
        "linger.ms and batch.size of the producer; flush after each record",
    ),
    FindingRule(
        "not_compressed",
        NOTE,
        clients.not_compressed,
        "Network, page cache and disk carry every byte in full, although samples of these records compress "
        "well.",
        "compression.type of the producer (lz4 or zstd); larger batches compress better",
    ),
)
