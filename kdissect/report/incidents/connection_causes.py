"""Causes that lie with single connections, with addresses or with TLS, and the rows that name them.

idle_connection_dropped    a box on the way forgot a silent connection
connections_reset          a box on the way resets the connections of a host
slow_reader                a client does not read what it asked for
wrong_advertised_listener  a broker advertises an address where nobody can connect, or that of another one
attempts_unanswered        something on the way drops attempts to connect, and nothing else
connections_full           a listener has as many connections as it may have
records_damaged            data arrives otherwise than it was sent
unacknowledged_refused     a producer wants no acknowledgment: its connection is closed in place of an error
tls_failure                TLS handshakes fail, and why
"""

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.incidents.client_links import FOLLOWS_A_CLIENT, joined, stated
from kdissect.report.incidents.network_causes import EVER, FOLLOWS_A_BAD_PATH, affected_clients, diagnose
from kdissect.report.incidents.one_host import one_host
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Subject, SubjectKind
from kdissect.report.wording import capitalized, counted, listed
from kdissect.text import format_clock, format_duration

CRITICAL, WARNING, NOTE = Severity


def idle_connection_dropped(case: Case) -> Diagnosis | None:
    """Data after a long silence gets no acknowledgment while other connections go on."""
    dropped = case.anchor
    return diagnose(
        case,
        f"An idle connection of {affected_clients(dropped)} was dropped on the way: after "
        f"{format_duration(dropped.measures['idle_ns'])} of silence, the request at "
        f"{format_clock(dropped.begin_ns)} was sent again {counted(dropped.measures['repeats'], 'time')} "
        f"without an acknowledgment ({counted(dropped.measures['connections'], 'connection')} between "
        f"{dropped.subject.name})",
        0.85,
        speaks_for=("other connections between the same hosts went on", "nobody had closed the connection"),
    )


def slow_reader(case: Case) -> Diagnosis | None:
    """A client's receive window is closed again and again."""
    closed = case.anchor
    return diagnose(
        case,
        f"{_capitalized_kind(closed.subject.name)} reads too slowly since "
        f"{format_clock(closed.begin_ns)}: it closed its receive window "
        f"{counted(closed.measures['times'], 'time')}, for "
        f"{format_duration(closed.measures['closed_ns'])} in all and up to "
        f"{format_duration(closed.measures['longest_ns'])}, and responses waited for it",
        0.85,
        speaks_for=("the client itself closed the window: neither server nor network is slow",),
    )


def wrong_advertised_listener(case: Case) -> Diagnosis | None:
    """An address that Metadata names never accepts a connection, or is that of another broker."""
    refused = case.anchor
    if refused.kind == "address_shared":
        return diagnose(case, refused.sentence, 0.9)
    if refused.kind == "advertised_untried":
        return diagnose(
            case,
            _capitalized_kind(refused.sentence),
            0.85,
            speaks_for=("these clients write or read partitions that the broker leads", "they reach others"),
        )
    return diagnose(
        case,
        _capitalized_kind(refused.sentence),
        0.9,
        speaks_for=("nobody connected to that address in the whole capture", "the broker is up"),
    )


def connections_reset(case: Case) -> Diagnosis | None:
    """Connections of a host are reset one by one."""
    reset = case.anchor
    if case.near(("sessions_expired",), Relation.CLIENT, EVER, 0):
        return None
    limit = ("all of them reach about the same age",) if reset.measures["one_age"] else ()
    return diagnose(
        case,
        capitalized(reset.sentence),
        0.85 if limit else 0.7,
        speaks_for=("other connections of the same clients and servers went on", *limit),
    )


def attempts_unanswered(case: Case) -> Diagnosis | None:
    """Nobody answers attempts of a host to connect, while its open connections go on."""
    return diagnose(
        case,
        capitalized(case.anchor.sentence),
        0.85,
        speaks_for=("its open connections to the same servers go on", "nobody refused an attempt"),
    )


def connections_full(case: Case) -> Diagnosis | None:
    """Servers accept connections and serve only those that were open before; several are one incident."""
    own = case.anchor
    if case.near(("closed_at_once",), Relation.SERVER, AT_ONE_TIME_NS, AT_ONE_TIME_NS):
        return None  # they take connections, and close them; the capture lacks the ends of some
    near = case.near((own.kind,), Relation.ANYWHERE, AT_ONE_TIME_NS, AT_ONE_TIME_NS)
    core = (own, *(one for one in near if abs(one.begin_ns - own.begin_ns) <= AT_ONE_TIME_NS))
    one_server = diagnose(
        case,
        _capitalized_kind(own.sentence),
        0.85,
        speaks_for=("connections that were open before are served",),
    )._replace(speaks_against=("the capture does not show a limit of the server",))
    if len(core) == 1:
        return one_server
    begin_ns = min(one.begin_ns for one in core)
    count = sum(one.measures["connections"] for one in core)
    longest_ns = max(one.measures["longest_ns"] for one in core)
    servers = sorted(one.subject.name for one in core)
    headline = (
        f"{listed(servers, NAMED)} accept connections and answer nothing on them since "
        f"{format_clock(begin_ns)}: {counted(count, 'new connection')} waited up to "
        f"{format_duration(longest_ns)} for a first response, while older ones are served"
    )
    cluster = Subject(kind=SubjectKind.CLUSTER, name="the cluster")
    whole = joined(core, cluster, capitalized(headline), 0.85, "it began at one time")
    return whole._replace(speaks_against=one_server.speaks_against)


def records_damaged(case: Case) -> Diagnosis | None:
    """Batches arrive with checksums that do not fit; clients of one host have one reason."""
    own = case.anchor
    near = case.near((own.kind,), Relation.ANYWHERE, AT_ONE_TIME_NS, AT_ONE_TIME_NS)
    host = one_host(own)
    core = (own, *(one for one in near if host and one_host(one) == host))
    if len(core) == 1:
        return stated(0.9)(case)
    begin_ns = min(one.begin_ns for one in core)
    clients = sorted({client for one in core for client in one.clients})
    topics = sorted({topic for one in core for topic in one.topics})
    count = sum(one.measures["count"] for one in core)
    return joined(
        core,
        Subject(kind=SubjectKind.HOST, name=host),
        f"Records that host {host} sends arrive damaged since {format_clock(begin_ns)}: "
        f"{counted(count, 'request')} of {listed(clients, NAMED)} (topic {listed(topics, NAMED)}) refused "
        "with CORRUPT_MESSAGE",
        0.9,
        "all of these clients are at one host",
    )


def tls_failure(case: Case) -> Diagnosis | None:
    """TLS handshakes of a client or a host fail."""
    failed = case.anchor
    return diagnose(case, _capitalized_kind(failed.sentence), 0.9)


def _capitalized_kind(text: str) -> str:
    """Return a text as the beginning of a sentence; the names of clients stay as they are."""
    return capitalized(text) if text.startswith(("broker ", "host ")) else text


NAMED = 3
AT_ONE_TIME_NS = 15 * SECOND
"""Servers that stop to serve new connections within this time do so for one reason."""

AFTER_ATTEMPTS = (
    "unanswered_timeout",
    "unanswered_cut",
    "requests_open",
    "connections_storm",
    "connection_churn",
    "connections_unserved",
    "retries_storm",
)

CONNECTION_CAUSES = (
    Cause(
        name="attempts_unanswered",
        layer=Layer.NETWORK,
        severity=CRITICAL,
        anchors=("attempts_unanswered",),
        judge=attempts_unanswered,
        links=(),
        needs="four or more attempts of a host to connect get no answer, for a second or more, and none "
        "succeeds, while connections that it has already go on",
        against="the open connections of the host stand still, too: then the path is dead",
        means="Something on the way, or a firewall of the server, drops new connections of this host only.",
        next="rules of firewalls and security groups for this host, tables of connections that are full "
        "(conntrack), the backlog of the server's listener",
    ),
    Cause(
        name="connections_full",
        layer=Layer.SERVER,
        severity=CRITICAL,
        anchors=("connections_unserved",),
        judge=connections_full,
        links=(Link(AFTER_ATTEMPTS, Relation.ANYWHERE, 5 * SECOND, 30 * SECOND),),
        needs="servers answer nothing on three or more new connections, for 4 s or more, while they serve "
        "those that were open before, and serve fewer new ones than they leave waiting",
        against="it is silent on all connections: then it is frozen",
        means="The listener has as many connections as max.connections allows, or takes them one by one "
        "(max.connection.creation.rate): the host accepts a connection, and the broker does not.",
        next="max.connections and max.connection.creation.rate of the listener; which clients hold "
        "connections; the broker's log",
    ),
    Cause(
        name="records_damaged",
        layer=Layer.NETWORK,
        severity=CRITICAL,
        anchors=("records_damaged",),
        judge=records_damaged,
        links=FOLLOWS_A_CLIENT,
        needs="Produce requests are refused with CORRUPT_MESSAGE three times or more, over a second or more",
        against="",
        means="The checksum of a batch does not fit its bytes when it arrives: something between the "
        "producer's memory and the broker changes them. They are not stored.",
        next="boxes, drivers and offload settings of network cards on the way of this host; its memory; the "
        "version of the client's library",
    ),
    Cause(
        name="unacknowledged_refused",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("closed_after_acks_none",),
        judge=stated(0.85),
        links=(
            Link(
                ("connection_churn", "connections_storm", "connections_reset", "metadata_storm_began"),
                Relation.CLIENT,
                10 * SECOND,
            ),
        ),
        needs="brokers close three or more connections of a client within a second of a record with acks=0, "
        "over 2 s or more",
        against="other clients lose their connections, too: then the broker ends",
        means="A broker cannot send an error to a producer with acks=0, so it closes the connection. The "
        "records are lost, and the producer does not know.",
        next="the broker's log for this client (record too large, not the leader, no right); acks=1 shows "
        "the error",
    ),
    Cause(
        name="idle_connection_dropped",
        layer=Layer.NETWORK,
        severity=WARNING,
        anchors=("idle_connection_dropped",),
        judge=idle_connection_dropped,
        links=FOLLOWS_A_BAD_PATH,
        needs="data after 4 s or more of silence is never acknowledged, while other connections of the "
        "path go on",
        against="a FIN or RST before: then an end closed it",
        means="A firewall, load balancer or NAT forgot the connection, and its ends do not know.",
        next="idle timeouts on the way; connections.max.idle.ms and TCP keep-alive below them",
    ),
    Cause(
        name="slow_reader",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("window_closed",),
        judge=slow_reader,
        links=(
            Link(
                ("client_latency_rose", "errors_repeated", "member_expired", "loss_rose"),
                Relation.CLIENT,
                5 * SECOND,
                10 * SECOND,
            ),
        ),
        needs="a client closes its receive window for 200 ms or more, several times or for a second in all",
        against="the window of the server is closed: then the server does not read",
        means="The client does not take in what it asked for: its process is busy, paused or out of memory.",
        next="the client's processing between polls, its processors and garbage collection",
    ),
    Cause(
        name="wrong_advertised_listener",
        layer=Layer.NETWORK,
        severity=CRITICAL,
        anchors=("advertised_refused", "address_shared", "advertised_untried"),
        judge=wrong_advertised_listener,
        links=(
            Link(
                ("attempts_refused", "refused_connections", "connection_churn"), Relation.SERVER, EVER, EVER
            ),
            Link(
                (
                    "metadata_storm",
                    "metadata_storm_began",
                    "errors_repeated",
                    "retriable_errors_lasted",
                    "leader_moved",
                ),
                Relation.CLIENT,
                EVER,
                EVER,
            ),
            Link(("leadership_left", "leader_moved", "errors_repeated"), Relation.SERVER, EVER, EVER),
        ),
        needs="an address that a broker's Metadata names refuses or ignores all attempts in the capture, "
        "while the broker talks at another address or port; or two brokers have one address, where requests "
        "are refused for 5 s or more since that broker does not lead; or clients that need a broker never "
        "try its address, and ask for metadata 8 times a second or more",
        against="somebody connected to it before or later: then the broker was down",
        means="Clients are sent to an address that they cannot reach, or where another broker listens.",
        next="advertised.listeners of that broker, the listener's port, firewalls and name resolution",
    ),
    Cause(
        name="connections_reset",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("connections_reset",),
        judge=connections_reset,
        links=(
            Link(
                (
                    "unanswered_cut",
                    "unanswered_timeout",
                    "connection_churn",
                    "connections_storm",
                    "connections_ended",
                    "requests_open",
                    "client_restarts",
                    "member_lost",
                    "rebalance_storm",
                    "client_latency_rose",
                ),
                Relation.CLIENT,
                SECOND,
                10 * SECOND,
            ),
        ),
        needs="six or more connections of one host are reset over 5 s or more, one after the other, while "
        "other connections of the same clients and servers go on, and each is opened anew",
        against="all connections of a client end together: its process ended; or all of a server",
        means="A firewall, proxy or load balancer on the way ends connections that are in use. Requests "
        "under way are lost, and producers send them again.",
        next="limits on the age or the bytes of a connection on the way of this host; its security software",
    ),
    Cause(
        name="tls_failure",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("tls_handshake_failed",),
        judge=tls_failure,
        links=(
            Link(
                ("tls_failed", "connection_churn", "connections_storm", "unanswered_cut"),
                Relation.SERVER,
                EVER,
                EVER,
            ),
            Link(
                ("unanswered_cut", "connection_churn", "connections_storm", "requests_open"),
                Relation.CLIENT,
                EVER,
                EVER,
            ),
        ),
        needs="TLS handshakes end with an alert, or one of the two sides speaks no TLS",
        against="",
        means="Client and server do not agree on TLS: certificate, authority, version, or whether it is "
        "spoken.",
        next="the certificate and its dates, truststores, security.protocol of the client, the listener's "
        "port",
    ),
)
