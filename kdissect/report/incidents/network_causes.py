"""Causes that lie with the network, and the rows of the table that name them.

path_dead              nothing arrives from a host, or between two hosts
path_slow, path_lossy  a path is longer or loses more since a moment
large_packets_lost     large packets never arrive, small ones do
"""

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.wording import counted, for_so_long, listed
from kdissect.text import format_clock, format_duration, format_size

CRITICAL, WARNING, NOTE = Severity

EVER = 10**6 * SECOND
DELAYED_ACK_NS = (38_000_000, 46_000_000)
"""Linux delays acknowledgments by 40 ms; a round trip of that length may be nothing else."""

THROTTLED_NS = 10 * SECOND
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
    ending = for_so_long(silent.measures["silent_ns"], silent.end_ns is not None)
    repeats = silent.measures["repeats"]
    again = f", and data was sent again {counted(repeats, 'time')}" if repeats else ""
    return diagnose(
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
    if after <= high and _is_throttled(case):
        return None
    return diagnose(
        case,
        f"{_path(rose)} became slow at {format_clock(rose.begin_ns)}: its round trip rose from "
        f"{format_duration(before)} to {format_duration(after)} on "
        f"{counted(rose.measures['connections'], 'connection')}",
        0.9,
        speaks_for=("every acknowledgment takes longer, not only responses",),
    )


def _is_throttled(case: Case) -> bool:
    """Return whether a quota has brokers not read what the clients of a path send (KIP-219).

    A response that is due carries the acknowledgment. Without one it is delayed.
    """
    throttled = case.near(("quota_applied",), Relation.CLIENT, THROTTLED_NS, SECOND)
    return set(case.anchor.clients) <= {name for one in throttled for name in one.clients}


def path_lossy(case: Case) -> Diagnosis | None:
    """A path loses segments since a moment."""
    loss = case.anchor
    if case.near(("round_trip_rose",), Relation.SUBJECT, before_ns=EVER, after_ns=EVER):
        return None
    return diagnose(
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
            f"{counted(stuck.measures['connections'], 'connection')} wait for "
            f"{format_size(stuck.measures['missing_bytes'])} that never came, while small ones pass"
        )
    else:
        how = (
            f"segments of {stuck.measures['smallest_stuck_bytes']:,} bytes or more were sent again "
            f"{counted(stuck.measures['times'], 'time')}, while up to "
            f"{stuck.measures['largest_acked_bytes']:,} bytes pass"
        )
    return diagnose(
        case,
        f"Large packets {' and '.join(ways)} {stuck.subject.name} never arrive since "
        f"{format_clock(stuck.begin_ns)}: {how}; clients: {affected_clients(stuck)}",
        0.75 if "missing_bytes" in stuck.measures else 0.9,
        speaks_for=("small segments pass on the same path at the same time",),
    )


def diagnose(case: Case, headline: str, confidence: float, speaks_for: tuple[str, ...] = ()) -> Diagnosis:
    """Return the case as one incident: the subject and the times are those of its anchor."""
    anchor = case.anchor
    return Diagnosis(
        anchor.subject, anchor.begin_ns, anchor.end_ns, headline, confidence, (anchor,), speaks_for=speaks_for
    )


def _path(signal: Signal) -> str:
    """Return what a signal about a path is about, as the beginning of a sentence."""
    if signal.subject.kind is SubjectKind.HOST:
        return f"The path to {signal.subject.name}"
    return f"The path between {signal.subject.name}"


def affected_clients(signal: Signal) -> str:
    """Return the clients of a signal as text, or its subject where there are no clients."""
    return listed(signal.clients, CLIENTS_NAMED) or signal.subject.name


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
    "coordinator_missing",
    "errors_repeated",
    "commit_failed",
    "sequence_gap",
    "metadata_storm",
    "path_silent",
    "round_trip_rose",
    "loss_rose",
    "large_segments_stuck",
    "idle_connection_dropped",
    "window_closed",
    "slow_transfer",
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
    "coordinator_missing",
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
        "four times as often as elsewhere and for one segment of 250 or more",
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
)
