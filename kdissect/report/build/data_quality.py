"""Gaps and uncertainties of a capture: a table of counters, each with the figures that it affects.

A counter that is zero is not reported.
"""

from collections.abc import Callable
from typing import NamedTuple

from kdissect import limits
from kdissect.report.findings.capture import STEP_NS
from kdissect.report.model.call_figures import Figures
from kdissect.report.model.connection_rows import ConnectionTotals
from kdissect.report.model.summary import CaptureFacts, QualityCounter


class QualityInput(NamedTuple):
    """Inputs of the counters."""

    capture: CaptureFacts
    connections: ConnectionTotals
    totals: Figures


class QualityRule(NamedTuple):
    """A counter: its name, how many, of how many, and what it means for the reader."""

    name: str
    count: Callable[[QualityInput], int]
    of: Callable[[QualityInput], int] | None
    means: str


def quality_counters(source: QualityInput) -> tuple[QualityCounter, ...]:
    """Return the counters that are not zero."""
    return tuple(
        QualityCounter(
            name=rule.name,
            count=rule.count(source),
            of=rule.of(source) if rule.of else None,
            means=rule.means,
        )
        for rule in QUALITY_RULES
        if rule.count(source)
    )


def _packets(source: QualityInput) -> int:
    return source.capture.packets


def _kafka_connections(source: QualityInput) -> int:
    return source.connections.opened_by_handshake + source.connections.midstream


def _kafka_bytes(source: QualityInput) -> int:
    return source.connections.bytes_to_server + source.connections.bytes_to_client


def _all_bytes(source: QualityInput) -> int:
    return sum(row.bytes for row in source.connections.protocols)


def _bytes_of(source: QualityInput, *protocols: str) -> int:
    return sum(row.bytes for row in source.connections.protocols if row.protocol in protocols)


def _expected_responses(source: QualityInput) -> int:
    return source.totals.exchanges - source.totals.no_response_expected


QUALITY_RULES = (
    QualityRule(
        "lost_bytes",
        lambda source: source.connections.lost_bytes,
        # Bytes cut off by the snap length are counted as lost, too.
        lambda source: source.connections.lost_bytes + _kafka_bytes(source) - source.connections.cut_bytes,
        "bytes that the capture lost: some exchanges are missing or look unanswered",
    ),
    QualityRule(
        "dropped_packets",
        lambda source: source.capture.dropped_packets,
        lambda source: source.capture.packets + source.capture.dropped_packets,
        "packets that were dropped during the capture, as its file reports, or skipped by a watch",
    ),
    QualityRule(
        "conflicting_segments",
        lambda source: source.connections.conflicting_segments,
        None,
        "retransmissions with other bytes: the first copy counts, but the receiver may have taken another "
        "one",
    ),
    QualityRule(
        "one_way_connections",
        lambda source: source.connections.one_way,
        _kafka_connections,
        "connections with one captured direction only: no latencies, no errors",
    ),
    QualityRule(
        "midstream_connections",
        lambda source: source.connections.midstream,
        _kafka_connections,
        "connections older than the capture: client software may be unknown, first responses lack their "
        "request",
    ),
    QualityRule(
        "unmatched",
        lambda source: (
            source.totals.unanswered - source.totals.unanswered_open + source.totals.orphan_responses
        ),
        _expected_responses,
        "requests without a response, or responses without a request: they have no latency",
    ),
    QualityRule(
        "truncated_packets",
        lambda source: source.capture.truncated_packets,
        _packets,
        "packets cut by the snap length: names, errors and records in the missing part are not counted",
    ),
    QualityRule(
        "faults",
        lambda source: source.totals.faults,
        lambda source: source.totals.exchanges,
        "messages not fully decoded: their latency counts, what follows the fault does not",
    ),
    QualityRule(
        "untimed",
        lambda source: source.totals.untimed,
        lambda source: source.totals.answered,
        "responses with a time before their request, or days later: left out of latencies",
    ),
    QualityRule(
        "clock_steps",
        lambda source: source.capture.clock_steps if source.capture.largest_clock_step_ns >= STEP_NS else 0,
        None,
        "times that jump back between packets: latencies around them are wrong",
    ),
    QualityRule(
        "fragments",
        lambda source: source.capture.fragments,
        _packets,
        "IP fragments without a captured first fragment: their content is missing",
    ),
    QualityRule(
        "malformed_packets",
        lambda source: source.capture.malformed_packets,
        _packets,
        "packets whose headers are malformed, cut off, or inside too many tunnels: their content is missing",
    ),
    QualityRule(
        "unknown_link_packets",
        lambda source: source.capture.unknown_link_packets,
        _packets,
        "packets of an unsupported link type: their content is missing",
    ),
    QualityRule(
        "attempts",
        lambda source: source.capture.attempts,
        None,
        f"unanswered connection attempts beyond the first {limits.ATTEMPTS:,} in each part of the capture: "
        "left out",
    ),
    QualityRule(
        "skipped_bytes",
        lambda source: source.connections.skipped_bytes,
        _kafka_bytes,
        "captured bytes of Kafka connections that belong to no complete message",
    ),
    QualityRule(
        "oversized_frames",
        lambda source: source.connections.oversized_frames,
        None,
        f"size fields above {limits.FRAME_BYTES:,} bytes: treated as garbage, and the next message was "
        "searched",
    ),
    QualityRule(
        "overfull_holes",
        lambda source: source.connections.overfull_holes,
        None,
        f"gaps in streams that were given up because more than {limits.AHEAD_BYTES:,} bytes, or too many "
        "packets, came after them",
    ),
    QualityRule(
        "overheld_waits",
        lambda source: source.connections.overheld_waits,
        None,
        "times that a connection gave up waiting (for a packet, the rest of a message, a response) because "
        f"the connections of its task held more than {limits.HELD_BYTES:,} bytes",
    ),
    QualityRule(
        "duplicate_packets",
        lambda source: source.connections.duplicate_packets,
        _packets,
        "packets that were captured twice: each counts once, at its first time; copies behind address "
        "translation are not recognised",
    ),
    QualityRule(
        "encrypted_bytes",
        lambda source: _bytes_of(source, "tls"),
        _all_bytes,
        "bytes under TLS without keys: their content is not in this report",
    ),
    QualityRule(
        "undecrypted_bytes",
        lambda source: sum(
            row.undecrypted_bytes for row in source.connections.tls if row.decryption == "partly"
        ),
        lambda source: sum(row.bytes for row in source.connections.tls if row.decryption == "partly"),
        "bytes under TLS that could not be decrypted on connections that otherwise could: incomplete records",
    ),
    QualityRule(
        "other_bytes",
        lambda source: _all_bytes(source) - _bytes_of(source, "kafka", "kafka-0.7", "tls"),
        _all_bytes,
        "bytes that are not Kafka, or not recognised",
    ),
    QualityRule(
        "kafka_0_7_bytes",
        lambda source: _bytes_of(source, "kafka-0.7"),
        _all_bytes,
        "bytes of the protocol before Kafka 0.8, whose responses are matched to requests by order only",
    ),
)
