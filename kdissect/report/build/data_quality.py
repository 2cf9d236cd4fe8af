"""What the capture cannot tell: one rule per kind of doubt, each a count and the figures it touches. Quiet when zero."""

from collections.abc import Callable
from typing import NamedTuple

from kdissect import limits
from kdissect.report.model.summary import (
    CaptureFacts,
    ConnectionTotals,
    Figures,
    QualityCounter,
)


class QualityInput(NamedTuple):
    """What the rules look at."""

    capture: CaptureFacts
    connections: ConnectionTotals
    totals: Figures


class QualityRule(NamedTuple):
    """A kind of doubt: how many, of how many, and what it means for the reader."""

    name: str
    count: Callable[[QualityInput], int]
    of: Callable[[QualityInput], int] | None
    means: str


def quality_counters(evidence: QualityInput) -> tuple[QualityCounter, ...]:
    """Give the doubts that there is a reason for."""
    return tuple(
        QualityCounter(
            name=rule.name,
            count=rule.count(evidence),
            of=rule.of(evidence) if rule.of else None,
            means=rule.means,
        )
        for rule in QUALITY_RULES
        if rule.count(evidence)
    )


def _kafka_connections(evidence: QualityInput) -> int:
    seen = evidence.connections
    return seen.opened_by_handshake + seen.midstream


def _all_bytes(evidence: QualityInput) -> int:
    return sum(row.bytes for row in evidence.connections.protocols)


def _bytes_of(evidence: QualityInput, *protocols: str) -> int:
    return sum(row.bytes for row in evidence.connections.protocols if row.protocol in protocols)


def _awaited(evidence: QualityInput) -> int:
    totals = evidence.totals
    return totals.exchanges - totals.no_response_expected


QUALITY_RULES = (
    QualityRule(
        "lost_bytes",
        lambda seen: seen.connections.lost_bytes,
        lambda seen: (
            seen.connections.lost_bytes
            + seen.connections.bytes_to_server
            + seen.connections.bytes_to_client
            - seen.connections.cut_bytes  # which are lost, too
        ),
        "bytes the capture lost: some exchanges are missing or look unanswered",
    ),
    QualityRule(
        "dropped_packets",
        lambda seen: seen.capture.dropped_packets,
        lambda seen: seen.capture.packets + seen.capture.dropped_packets,
        "packets lost in capturing, as the capture itself says",
    ),
    QualityRule(
        "conflicting_segments",
        lambda seen: seen.connections.conflicting_segments,
        None,
        "segments sent again with other bytes: the first ones count, but the receiver may have taken the others",
    ),
    QualityRule(
        "one_way_connections",
        lambda seen: seen.connections.one_way,
        _kafka_connections,
        "connections with one direction only: no latencies, no errors",
    ),
    QualityRule(
        "midstream_connections",
        lambda seen: seen.connections.midstream,
        _kafka_connections,
        "connections older than the capture: client software may be unknown, first answers lack their request",
    ),
    QualityRule(
        "unmatched",
        lambda seen: seen.totals.unanswered + seen.totals.orphan_responses,
        _awaited,
        "requests without answer or answers without request: they have no latency",
    ),
    QualityRule(
        "truncated_packets",
        lambda seen: seen.capture.truncated_packets,
        lambda seen: seen.capture.packets,
        "packets cut by the snap length: names, errors and records in the missing part are not counted",
    ),
    QualityRule(
        "faults",
        lambda seen: seen.totals.faults,
        lambda seen: seen.totals.exchanges,
        "messages not fully decoded: their latency counts, what follows the fault does not",
    ),
    QualityRule(
        "untimed",
        lambda seen: seen.totals.untimed,
        lambda seen: seen.totals.answered,
        "answers with a time before their request, or days later: left out of latencies",
    ),
    QualityRule(
        "clock_steps",
        lambda seen: seen.capture.clock_steps,
        None,
        "times that jump back between packets: latencies around them are wrong",
    ),
    QualityRule(
        "fragments",
        lambda seen: seen.capture.fragments,
        lambda seen: seen.capture.packets,
        "IP fragments whose first one is not in the capture: what they carry is missing",
    ),
    QualityRule(
        "malformed_packets",
        lambda seen: seen.capture.malformed_packets,
        lambda seen: seen.capture.packets,
        "packets whose headers are wrong, cut off, or in too many tunnels: what they carry is missing",
    ),
    QualityRule(
        "unknown_link_packets",
        lambda seen: seen.capture.unknown_link_packets,
        lambda seen: seen.capture.packets,
        "packets of a link type that is not read: what they carry is missing",
    ),
    QualityRule(
        "attempts",
        lambda seen: seen.capture.attempts,
        None,
        f"attempts to connect that nobody answered, beyond the first {limits.ATTEMPTS:,} of each part of the capture: left out",
    ),
    QualityRule(
        "skipped_bytes",
        lambda seen: seen.connections.skipped_bytes,
        lambda seen: seen.connections.bytes_to_server + seen.connections.bytes_to_client,
        "captured bytes of Kafka connections that belong to no whole message",
    ),
    QualityRule(
        "oversized_frames",
        lambda seen: seen.connections.oversized_frames,
        None,
        f"messages that claim more than {limits.FRAME_BYTES:,} bytes: not taken for any, and the next one was searched",
    ),
    QualityRule(
        "overfull_holes",
        lambda seen: seen.connections.overfull_holes,
        None,
        f"holes in streams that were given up because more than {limits.AHEAD_BYTES:,} bytes, or too many packets, came after them",
    ),
    QualityRule(
        "overheld_waits",
        lambda seen: seen.connections.overheld_waits,
        None,
        f"times that a connection gave up what it waited for (a missing packet, the rest of a message, an answer) because those of one task held more than {limits.HELD_BYTES:,} bytes together",
    ),
    QualityRule(
        "duplicate_packets",
        lambda seen: seen.connections.duplicate_packets,
        lambda seen: seen.capture.packets,
        "packets captured twice, on another interface or at another place: each counts once, at its first time; those behind address translation are not recognised and count again",
    ),
    QualityRule(
        "encrypted_bytes",
        lambda seen: _bytes_of(seen, "tls"),
        _all_bytes,
        "bytes under TLS: whatever is inside is not in this report",
    ),
    QualityRule(
        "undecrypted_bytes",
        lambda seen: sum(row.undecrypted_bytes for row in seen.connections.tls if row.decryption == "partly"),
        lambda seen: sum(row.bytes for row in seen.connections.tls if row.decryption == "partly"),
        "bytes under TLS that could not be decrypted, next to others that could: records that the capture has in part",
    ),
    QualityRule(
        "other_bytes",
        lambda seen: _all_bytes(seen) - _bytes_of(seen, "kafka", "kafka-0.7", "tls"),
        _all_bytes,
        "bytes that are not Kafka, or not recognised",
    ),
    QualityRule(
        "kafka_0_7_bytes",
        lambda seen: _bytes_of(seen, "kafka-0.7"),
        _all_bytes,
        "bytes of the protocol before Kafka 0.8, whose answers can only be matched to requests by their order",
    ),
)
