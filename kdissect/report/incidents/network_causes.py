"""Causes that lie with the network, with addresses or with TLS, and the rows of the table that name them.

path_dead                  nothing arrives from a host, or between two hosts
path_slow, path_lossy      a path is longer or loses more since a moment
large_packets_lost         large packets never arrive, small ones do
idle_connection_dropped    a box on the way forgot a silent connection
connections_reset          a box on the way resets the connections of a host
slow_reader                a client does not read what it asked for
wrong_advertised_listener  a broker advertises an address where nobody can connect, or that of another one
tls_failure                TLS handshakes fail, and why
"""

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.wording import capitalized, counted, listed
from kdissect.text import format_clock, format_duration, format_size

CRITICAL, WARNING, NOTE = Severity

EVER = 10**6 * SECOND
DELAYED_ACK_NS = (38_000_000, 46_000_000)
"""Linux delays acknowledgments by 40 ms; a round trip of that length may be nothing else."""

BAND_PAIRS = 3
"""Unless it is that of so many pairs of hosts: some acknowledgment among them would not be delayed."""

CLIENTS_NAMED = 3


def path_dead(case: Case) -> Diagnosis | None:
    """Nothing arrived from a host, and data to it was sent again."""
    silent = case.anchor
    if case.near(("large_segments_stuck",), Relation.CLIENT, before_ns=EVER):
        return None
    dropped = case.near(("idle_connection_dropped",), Relation.CLIENT)
    if any(abs(one.begin_ns - silent.begin_ns) <= 2 * SECOND for one in dropped):
        return None  # the server is silent on the only connection that was used, and others pass
    if not silent.measures["repeats"] and _server_fell_silent(case):
        return None
    lasted = format_duration(silent.measures["silent_ns"])
    ending = f"for {lasted}" if silent.end_ns is not None else f"for {lasted}, to the end of the capture"
    repeats = silent.measures["repeats"]
    again = f", and data was sent again {counted(repeats, 'time')}" if repeats else ""
    return _diagnosis(
        case,
        f"{_path(silent)} was dead from {format_clock(silent.begin_ns)} {ending}: nothing arrived on "
        f"{counted(silent.measures['connections'], 'connection')}{again}",
        0.95 if repeats else 0.6,
        speaks_for=("not even acknowledgments arrived, which the kernel of a frozen process still sends",)
        if repeats
        else ("several clients fell silent and went on together", "both hosts talked with others meanwhile"),
    )


def _server_fell_silent(case: Case) -> bool:
    """Return whether requests got to a server of the path, which sent nothing to anybody most of the time.

    Its kernel acknowledged them, or they had been sent again: the path is well, and the process stood still.
    """
    silent = case.anchor
    return any(
        2 * one.measures["silent_ns"] >= silent.measures["silent_ns"]
        for one in case.near(("server_silent",), Relation.SERVER, 2 * SECOND, 0)
        if abs(one.begin_ns - silent.begin_ns) <= 2 * SECOND
    )


def path_slow(case: Case) -> Diagnosis | None:
    """Every acknowledgment on a path takes longer since a moment."""
    rose = case.anchor
    before, after = rose.measures["before_ns"], rose.measures["after_ns"]
    low, high = DELAYED_ACK_NS
    if low <= after <= high and rose.measures["pairs"] < BAND_PAIRS:
        return None
    return _diagnosis(
        case,
        f"{_path(rose)} became slow at {format_clock(rose.begin_ns)}: its round trip rose from "
        f"{format_duration(before)} to {format_duration(after)} on "
        f"{counted(rose.measures['connections'], 'connection')}",
        0.9,
        speaks_for=("every acknowledgment takes longer, not only responses",),
    )


def path_lossy(case: Case) -> Diagnosis | None:
    """A path loses segments since a moment."""
    loss = case.anchor
    if case.near(("round_trip_rose",), Relation.SUBJECT, before_ns=EVER, after_ns=EVER):
        return None
    return _diagnosis(
        case,
        f"{_path(loss)} loses packets since {format_clock(loss.begin_ns)}: data was lost and sent again "
        f"{counted(loss.measures['times'], 'time')} on "
        f"{counted(loss.measures['connections'], 'connection')}, "
        f"and arrived up to {format_duration(loss.measures['longest_ns'])} late",
        0.85,
        speaks_for=("other paths of the capture lose less",),
    )


def large_packets_lost(case: Case) -> Diagnosis | None:
    """Large segments never arrive on a path on which small ones do."""
    stuck = case.anchor
    ways = [way for way in ("from", "to") if stuck.measures[f"stuck_{way}"]]
    if "missing_bytes" in stuck.measures:
        how = (
            f"{counted(stuck.measures['connections'], 'connection')} hang behind "
            f"{format_size(stuck.measures['missing_bytes'])} that nobody acknowledged, while small ones pass"
        )
    else:
        how = (
            f"segments of {stuck.measures['smallest_stuck_bytes']:,} bytes or more were sent again "
            f"{counted(stuck.measures['times'], 'time')}, while up to "
            f"{stuck.measures['largest_acked_bytes']:,} bytes pass"
        )
    return _diagnosis(
        case,
        f"Large packets {' and '.join(ways)} {stuck.subject.name} never arrive since "
        f"{format_clock(stuck.begin_ns)}: {how}; clients: {_clients(stuck)}",
        0.75 if "missing_bytes" in stuck.measures else 0.9,
        speaks_for=("small segments pass on the same path at the same time",),
    )


def idle_connection_dropped(case: Case) -> Diagnosis | None:
    """Data after a long silence gets no acknowledgment while other connections go on."""
    dropped = case.anchor
    return _diagnosis(
        case,
        f"An idle connection of {_clients(dropped)} was dropped on the way: after "
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
    return _diagnosis(
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
        return _diagnosis(case, refused.sentence, 0.9)
    if refused.kind == "advertised_untried":
        return _diagnosis(
            case,
            _capitalized_kind(refused.sentence),
            0.85,
            speaks_for=("these clients write or read partitions that the broker leads", "they reach others"),
        )
    return _diagnosis(
        case,
        _capitalized_kind(refused.sentence),
        0.9,
        speaks_for=("nobody connected to that address in the whole capture", "the broker is up"),
    )


def connections_reset(case: Case) -> Diagnosis | None:
    """Connections of a host are reset one by one."""
    reset = case.anchor
    limit = ("all of them reach about the same age",) if reset.measures["one_age"] else ()
    return _diagnosis(
        case,
        capitalized(reset.sentence),
        0.85 if limit else 0.7,
        speaks_for=("other connections of the same clients and servers went on", *limit),
    )


def tls_failure(case: Case) -> Diagnosis | None:
    """TLS handshakes of a client or a host fail."""
    failed = case.anchor
    return _diagnosis(case, _capitalized_kind(failed.sentence), 0.9)


def _diagnosis(case: Case, headline: str, confidence: float, speaks_for: tuple[str, ...] = ()) -> Diagnosis:
    anchor = case.anchor
    return Diagnosis(
        anchor.subject, anchor.begin_ns, anchor.end_ns, headline, confidence, (anchor,), speaks_for=speaks_for
    )


def _path(signal: Signal) -> str:
    """Return what a signal about a path is about, as the beginning of a sentence."""
    if signal.subject.kind is SubjectKind.HOST:
        return f"The path to {signal.subject.name}"
    return f"The path between {signal.subject.name}"


def _clients(signal: Signal) -> str:
    return listed(signal.clients, CLIENTS_NAMED) or signal.subject.name


def _capitalized_kind(text: str) -> str:
    """Return a text as the beginning of a sentence; the names of clients stay as they are."""
    return capitalized(text) if text.startswith(("broker ", "host ")) else text


WAITED = (
    "server_silent",
    "latency_rose",
    "client_latency_rose",
    "topic_latency_rose",
    "unanswered_cut",
    "unanswered_timeout",
    "connections_ended",
    "attempts_refused",
    "connection_churn",
    "behind_long_poll",
    "member_expired",
    "rebalance_storm",
    "retriable_errors_lasted",
    "leader_missing",
    "errors_repeated",
    "commit_failed",
    "metadata_storm",
    "path_silent",
    "round_trip_rose",
    "loss_rose",
    "large_segments_stuck",
    "idle_connection_dropped",
    "window_closed",
    "follower_silent",
    "follower_slowed",
    "requests_open",
)
"""Signals of clients and servers when packets do not arrive."""

MOVED = (
    "leader_moved",
    "leadership_left",
    "coordinator_left",
    "controller_moved",
    "leader_missing",
    "errors_repeated",
)

FOLLOWS_A_BAD_PATH = (
    Link(WAITED, Relation.CLIENT, 2 * SECOND, 30 * SECOND),
    Link(WAITED, Relation.SERVER, 2 * SECOND, 15 * SECOND),
    Link(("network_slow", "slow_broker"), Relation.SERVER, EVER, EVER),
)

NETWORK_CAUSES = (
    Cause(
        name="path_dead",
        layer=Layer.NETWORK,
        severity=CRITICAL,
        anchors=("path_silent",),
        judge=path_dead,
        links=(*FOLLOWS_A_BAD_PATH, Link(MOVED, Relation.ANYWHERE, SECOND, 30 * SECOND)),
        needs="no packet from a host for 2 s or more while the same data was sent to it again and again",
        against="its host acknowledges: then the process is frozen",
        means="Packets between these hosts were dropped: a cable, a switch, a firewall, a route, or a "
        "host that is off.",
        next="the network between the two, firewalls and security groups changed at that moment, the host "
        "itself",
    ),
    Cause(
        name="path_slow",
        layer=Layer.NETWORK,
        severity=WARNING,
        anchors=("round_trip_rose",),
        judge=path_slow,
        links=FOLLOWS_A_BAD_PATH,
        needs="the shortest round trip from data to acknowledgment rises fourfold or more, in every second",
        against="some acknowledgments are as fast as before: then the server is slow",
        means="Packets take a longer way or wait in a queue since that moment.",
        next="routes, tunnels and shaping between the hosts; links that are full",
    ),
    Cause(
        name="path_lossy",
        layer=Layer.NETWORK,
        severity=WARNING,
        anchors=("loss_rose",),
        judge=path_lossy,
        links=FOLLOWS_A_BAD_PATH,
        needs="data on a path is acknowledged only after it was sent again, in several seconds of 20, "
        "four times as often as elsewhere",
        against="all paths lose as much: then the host that captured was busy",
        means="Packets get lost on the way since that moment: a bad link, a full queue, a duplex mismatch.",
        next="error counters and drops of interfaces on the way; links that are full",
    ),
    Cause(
        name="large_packets_lost",
        layer=Layer.NETWORK,
        severity=CRITICAL,
        anchors=("large_segments_stuck",),
        judge=large_packets_lost,
        links=FOLLOWS_A_BAD_PATH,
        needs="segments above some size are sent again without end, while smaller ones are acknowledged; or "
        "three connections of a host hang behind bytes that the capture lacks and nobody acknowledged",
        against="small segments get lost, too",
        means="The path takes smaller packets than the sender believes (path MTU), and nobody tells it.",
        next="tunnels and VPNs on the way, the MTU of interfaces, firewalls that drop ICMP",
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
