"""The table of causes: names that stay, what each starts from, needs and explains, and what to do.

docs/incidents.md is made from it. Rows of modules stand here together, so that the order of layers and what
one cause explains of another can be seen at a glance.
"""

from kdissect.protocol.error_codes import COORDINATOR_ERRORS, LEADER_MOVED, NOT_THE_CONTROLLER
from kdissect.report.findings.rules import RULES
from kdissect.report.incidents import killed_together, policy_causes, symptom_causes
from kdissect.report.incidents.access_causes import ACCESS_CAUSES
from kdissect.report.incidents.cause import SECOND, Cause, Layer, Link, Relation
from kdissect.report.incidents.client_causes import CLIENT_CAUSES
from kdissect.report.incidents.client_links import LED_BY_CLIENTS, stated
from kdissect.report.incidents.cluster_causes import CLUSTER_CAUSES
from kdissect.report.incidents.connection_causes import CONNECTION_CAUSES
from kdissect.report.incidents.down_causes import DOWN_CAUSES
from kdissect.report.incidents.frozen_causes import broker_frozen
from kdissect.report.incidents.group_causes import GROUP_CAUSES
from kdissect.report.incidents.load_causes import LOAD_CAUSES
from kdissect.report.incidents.network_causes import EVER, NETWORK_CAUSES
from kdissect.report.incidents.replica_causes import LATENCY, REPLICA_CAUSES, REPLICAS
from kdissect.report.incidents.rolling_restart import brokers_stopped
from kdissect.report.incidents.slow_server_causes import broker_overloaded, broker_slow
from kdissect.report.incidents.storage_causes import STORAGE_CAUSES
from kdissect.report.model.findings import Severity

CRITICAL, WARNING, NOTE = Severity

MOVED = LEADER_MOVED | COORDINATOR_ERRORS | NOT_THE_CONTROLLER
"""Errors of requests that go to a server which no longer has, or does not have yet, what they are about."""

FOLLOWS_A_LOST_SERVER = (
    Link((*LATENCY, "server_silent"), Relation.ANYWHERE, 5 * SECOND, 3 * SECOND),
    Link(
        (
            "connections_ended",
            "attempts_refused",
            "closed_at_once",
            "server_silent",
            "unanswered_cut",
            "unanswered_timeout",
            "refused_connections",
            "slow_broker",
            "connection_churn",
            "latency_rose",
        ),
        Relation.SERVER,
    ),
    Link(REPLICAS, Relation.SERVER, 10 * SECOND, 60 * SECOND),
    Link(
        (
            "replicas_missing",
            "leader_missing",
            "coordinator_missing",
            "leader_moved",
            "leadership_left",
            "coordinator_left",
            "retriable_errors_lasted",
            "controller_moved",
            "commit_failed",
            "metadata_storm",
            "follower_silent",
            "follower_slowed",
            "requests_open",
            "empty_fetch_loop",
        ),
        Relation.ANYWHERE,
        before_ns=15 * SECOND,
        after_ns=30 * SECOND,
    ),
    Link(("errors_repeated",), Relation.ANYWHERE, 15 * SECOND, 30 * SECOND, MOVED),
    Link(
        (
            "member_expired",
            "rebalance_storm",
            "behind_long_poll",
            "empty_fetch_loop",
            "unanswered_cut",
            "unanswered_timeout",
            *LED_BY_CLIENTS,
        ),
        Relation.CLIENT,
        after_ns=30 * SECOND,
    ),
)

FOLLOWS_A_DOWN_SERVER = tuple(  # what moves long after it was down has other causes
    link._replace(after_ns=10 * SECOND) if link.kinds == REPLICAS else link for link in FOLLOWS_A_LOST_SERVER
)

FOLLOWS_A_SLOW_SERVER = (
    Link(LATENCY, Relation.ANYWHERE, 3 * SECOND, SECOND),
    Link(("server_silent", "behind_long_poll"), Relation.SERVER, 3 * SECOND, SECOND),
    Link(("slow_broker", "follower_slowed"), Relation.SERVER, EVER, EVER),
    Link(REPLICAS, Relation.SERVER, SECOND, 60 * SECOND),
    Link(("lag_grew", "lag_growing", "member_lost"), Relation.CLIENT, 3 * SECOND, SECOND),
)

FROM_THE_NETWORK = tuple(
    cause._replace(
        links=(
            *cause.links,
            Link(LED_BY_CLIENTS, Relation.CLIENT, after_ns=30 * SECOND),
            Link(REPLICAS, Relation.SERVER, SECOND, 60 * SECOND),
        )
    )
    for cause in (*NETWORK_CAUSES, *CONNECTION_CAUSES)
)
"""Causes of the network; what clients do since they cannot reach a server is a consequence of them."""

CAUSES = (
    *FROM_THE_NETWORK,
    Cause(
        name="broker_killed",
        layer=Layer.SERVER,
        severity=CRITICAL,
        anchors=killed_together.ANCHORS,
        judge=killed_together.brokers_killed,
        links=FOLLOWS_A_LOST_SERVER,
        needs="most connections of a server end within a moment while their clients go on, and new attempts "
        "are refused or requests were cut off; or it closes the last connection that is seen, and refuses "
        "new ones within 5 s; several that die within a second are one incident",
        against="leadership moved away from the server before, and hardly any request was under way: it was "
        "stopped in good order",
        means="The process of the broker ended without a handover, or its machine did.",
        next="the broker's log, the kernel's log (out of memory), who or what killed the process",
    ),
    Cause(
        name="broker_stopped",
        layer=Layer.SERVER,
        severity=WARNING,
        anchors=killed_together.ANCHORS,
        judge=brokers_stopped,
        links=FOLLOWS_A_LOST_SERVER,
        needs="as broker_killed, but leadership moved away before, or the broker asked for its shutdown; "
        "several are one incident if each is back before the next one is stopped",
        against="no sign of a handover: it was killed",
        means="The broker was shut down in good order: somebody or something stopped or restarted it.",
        next="deployments and restarts at that time; controlled.shutdown.enable; how long it took to be back",
    ),
    *(cause._replace(links=FOLLOWS_A_DOWN_SERVER) for cause in DOWN_CAUSES),
    Cause(
        name="broker_frozen",
        layer=Layer.SERVER,
        severity=CRITICAL,
        anchors=("server_silent",),
        judge=broker_frozen,
        links=(
            Link(
                ("server_silent", "follower_silent", "unanswered_timeout", "unanswered_cut", "requests_open"),
                Relation.ANYWHERE,
            ),
            *FOLLOWS_A_LOST_SERVER,
        ),
        needs="no byte from a server on any connection for a second or more, while requests of several "
        "connections waited",
        against="its host did not acknowledge packets either: then the path or the host is dead; it is "
        "short, and other servers pause, too, or take 5 ms or more to their next replica fetch: hosts are "
        "busy",
        means="The process stood still while its host went on: a garbage collection pause, a disk "
        "that hung, a paused virtual machine or container.",
        next="the broker's log of garbage collection, its disks, its host (steal time, limits of the "
        "container) at that moment",
    ),
    Cause(
        name="broker_overloaded",
        layer=Layer.SERVER,
        severity=WARNING,
        anchors=("latency_rose",),
        judge=broker_overloaded,
        links=(*FOLLOWS_A_SLOW_SERVER, Link(("batches_tiny", "rate_rose"), Relation.ANYWHERE, 5 * SECOND)),
        needs="latency of a server rises fourfold or more for most of its clients, for 5 s or more, and its "
        "requests become 1.7 times as many",
        against="another server rises to a higher level at the same moment",
        means="The broker has more requests than it can handle: latency grows with what is in flight.",
        next="which clients send more than before; its processors, disks and request handler threads",
    ),
    Cause(
        name="broker_slow",
        layer=Layer.SERVER,
        severity=WARNING,
        anchors=("latency_rose", "slow_broker", "follower_slowed"),
        judge=broker_slow,
        links=FOLLOWS_A_SLOW_SERVER,
        needs="latency of a server rises fourfold or more for most of its clients, for 5 s or more; or is "
        "three times that of the other brokers nearly all the time; or it takes four times as long from a "
        "response to its next replica fetch",
        against="another server rises to a higher level at the same moment, or all of them rise; its round "
        "trip rises too; it has more requests than before; all brokers take long to their next replica "
        "fetch, and it not three times as long; a pause of a second is most of that time; it lasts less than "
        "10 s, and another server was half as slow for 3 s before: hosts are busy",
        means="The broker takes longer for the same requests: disks, processors, garbage collection, or a "
        "follower that it waits for.",
        next="its disks, its processors and their limits, garbage collection; if only Produce with acks=all "
        "is slow, its followers",
    ),
    *STORAGE_CAUSES,
    Cause(
        name="connection_limit",
        layer=Layer.SERVER,
        severity=CRITICAL,
        anchors=("closed_at_once",),
        judge=policy_causes.connection_limit,
        links=(
            Link(
                (
                    "connections_storm",
                    "connection_churn",
                    "connections_ended",
                    "metadata_storm",
                    "metadata_storm_began",
                    "retries_storm",
                    "unanswered_cut",
                ),
                Relation.CLIENT,
                before_ns=10 * SECOND,
            ),
        ),
        needs="servers close five or more connections of one host within a second, before any response",
        against="their requests have a version that the server does not speak; the server answers nobody",
        means="The host has as many connections as the brokers allow it (max.connections.per.ip, or its "
        "overrides), so further ones are closed.",
        next="which process on the host opens so many connections; max.connections.per.ip and its overrides",
    ),
    Cause(
        name="backend_missing",
        layer=Layer.SERVER,
        severity=CRITICAL,
        anchors=("closed_at_once",),
        judge=policy_causes.backend_missing,
        links=(
            Link(("connections_storm", "connection_churn", "unanswered_cut"), Relation.CLIENT, 10 * SECOND),
            *FOLLOWS_A_LOST_SERVER,
        ),
        needs="an address closes five or more connections of one host within a second, before any response, "
        "and answers nobody in the capture, or nobody since then",
        against="it answers others: then it has a limit of connections",
        means="No broker listens at the address: a proxy, a load balancer, a tunnel or a forwarded port "
        "does, and has nothing behind it.",
        next="what listens at the address, and what it forwards to; the targets of the load balancer and "
        "their health; the bootstrap servers of these clients",
    ),
    Cause(
        name="request_size_limit",
        layer=Layer.SERVER,
        severity=WARNING,
        anchors=("large_requests_closed",),
        judge=policy_causes.request_size_limit,
        links=(
            Link(
                (
                    "unanswered_cut",
                    "connections_storm",
                    "connection_churn",
                    "connections_ended",
                    "retries_storm",
                    "metadata_storm",
                    "metadata_storm_began",
                ),
                Relation.CLIENT,
                before_ns=10 * SECOND,
            ),
        ),
        needs="servers close three or more connections of one client without an answer, each after 64 KiB or "
        "more of a request, and no request of that size is answered",
        against="other connections of the server end at the same moment: then it died or was stopped",
        means="A broker closes the connection of a request that is larger than socket.request.max.bytes, and "
        "answers nothing.",
        next="socket.request.max.bytes of the brokers; max.request.size and batch.size of the client",
    ),
    *REPLICA_CAUSES,
    *CLUSTER_CAUSES,
    *ACCESS_CAUSES,
    *CLIENT_CAUSES,
    *LOAD_CAUSES,
    *GROUP_CAUSES,
    Cause(
        name="errors_repeated",
        layer=Layer.SYMPTOM,
        severity=WARNING,
        anchors=("errors_repeated",),
        judge=symptom_causes.errors_repeated,
        links=(Link(tuple(rule.name for rule in RULES if rule.severity is not NOTE), Relation.CLIENT),),
        needs="an error code of an API comes three times or more for one topic, group or client",
        against="a cause that explains this error",
        means="Requests are refused again and again: the error names the reason.",
        next="the name of the error; the client and what it asks for",
    ),
    Cause(
        name="joins_unread",
        layer=Layer.SYMPTOM,
        severity=WARNING,
        anchors=("joins_unread",),
        judge=stated(0.5),
        links=(Link(("client_restarts", "connections_storm", "connection_churn"), Relation.CLIENT),),
        needs="clients join groups in six rounds or more, and the capture cut all of these messages",
        against="",
        means="Their group comes together again and again, and stands still each time. The reason is in "
        "bytes that were not captured.",
        next="the same with whole packets (tcpdump -s 0); the log of the client that is named first",
    ),
    Cause(
        name="answers_unread",
        layer=Layer.SYMPTOM,
        severity=WARNING,
        anchors=("answers_unread",),
        judge=stated(0.5),
        links=(Link(("metadata_storm", "connections_storm", "connection_churn"), Relation.CLIENT),),
        needs="a client asks for metadata of topics four times or more, over 5 s or more, sends nothing "
        "else, and the capture cut all of these messages",
        against="it writes or reads",
        means="The client gets no answer that it can work with: the topic is not there, it may not see it, "
        "or nobody leads it. The error is in bytes that were not captured.",
        next="the same with whole packets (tcpdump -s 0); the client's log",
    ),
    Cause(
        name="requests_unanswered",
        layer=Layer.SYMPTOM,
        severity=CRITICAL,
        anchors=("requests_open",),
        judge=symptom_causes.requests_unanswered,
        links=(Link(("requests_open", "unanswered_timeout"), Relation.CLIENT),),
        needs="requests without a response on connections that are open at the end, several times as long as "
        "such requests take",
        against="a server that froze or a path that is dead explains it",
        means="These requests hang: the server does not answer them, or the answer does not arrive.",
        next="the server's log for these clients; retransmissions on the path",
    ),
    Cause(
        name="connections_lost",
        layer=Layer.SYMPTOM,
        severity=WARNING,
        anchors=("connections_ended",),
        judge=symptom_causes.connections_lost,
        links=(
            Link(("unanswered_cut", "connection_churn"), Relation.CLIENT),
            Link(("unanswered_cut",), Relation.SERVER),
        ),
        needs="most connections of a server end within a moment, three or more of two or more clients, with "
        "requests under way",
        against="the server died or was stopped, or its clients ended",
        means="Something ended them all at once: a load balancer or proxy that was restarted, a firewall, "
        "or a server that was back at once.",
        next="what stands between these clients and the server; the server's log at that moment",
    ),
    Cause(
        name="slow_responses",
        layer=Layer.SYMPTOM,
        severity=WARNING,
        anchors=("slow_transfer",),
        judge=symptom_causes.slow_responses,
        links=(
            Link(("slow_transfer", "client_latency_rose", "lag_growing", "network_slow"), Relation.CLIENT),
        ),
        needs="responses to a client need 100 ms or more from their first to their last byte",
        against="segments are lost on the path, or its round trip is long",
        means="The client takes responses from its socket more slowly than the server sends them.",
        next="the client's processing between polls, its processor, receive.buffer.bytes, fetch.max.bytes",
    ),
    Cause(
        name="rate_changed",
        layer=Layer.SYMPTOM,
        severity=NOTE,
        anchors=("rate_rose", "rate_fell", "errors_rose"),
        judge=symptom_causes.rate_changed,
        links=(Link(("rate_rose", "rate_fell", "errors_rose"), Relation.CLIENT, 3 * SECOND, SECOND),),
        needs="requests or error responses a second of a client, a topic or a server become three times as "
        "many, or a third, for 4 s or more",
        against="the client comes or goes; the level was there before",
        means="The load, or what becomes of it, changed at this moment, and the capture does not show why.",
        next="what the application, or what it depends on, did at that moment",
    ),
    Cause(
        name="latency_changed",
        layer=Layer.SYMPTOM,
        severity=WARNING,
        anchors=LATENCY,
        judge=symptom_causes.latency_changed,
        links=(Link(LATENCY, Relation.ANYWHERE, 3 * SECOND, 0),),
        needs="latency of a server, a client, or of writes to one topic rises fourfold or more for 5 s",
        against="a server, path or quota that explains it; on a busy host, with a pause of a broker, or with "
        "a client that sends twice as much as before it is a note",
        means="Something changed at this moment, and the capture does not show what.",
        next="deployments, settings and load at that moment",
    ),
)
