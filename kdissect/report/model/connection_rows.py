"""Connections of a capture as a whole: software, protocols, TLS, SASL."""

from dataclasses import dataclass

from kdissect.report.model.call_figures import Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRow:
    """Connections that speak one protocol; `none`: no payload was sent."""

    protocol: str
    connections: int
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareRow:
    """Client software, as clients name it in ApiVersions, and its Kafka connections."""

    software_name: str
    software_version: str | None
    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsRow:
    """Connections under TLS by version, cipher suite, outcome, alert and decryption."""

    version: str | None
    cipher: str | None
    outcome: str
    alert: str | None
    alert_by: str | None
    decryption: str
    connections: int
    bytes: int
    undecrypted_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslRow:
    """Connections on which clients authenticated, by mechanism, outcome and error."""

    mechanism: str | None
    outcome: str
    error_name: str | None
    connections: int
    reauthentications: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTotals:
    """All TCP connections; everything from `software` on is about those that speak Kafka."""

    count: int
    protocols: tuple[ProtocolRow, ...]
    tls: tuple[TlsRow, ...]
    sasl: tuple[SaslRow, ...]
    software: tuple[SoftwareRow, ...]
    opened_by_handshake: int
    midstream: int
    one_way: int
    """Connections of which one direction was captured."""
    closed_by_fin: int
    closed_by_rst: int
    still_open: int
    lossy: int
    """Connections of which the capture lost bytes."""
    lost_bytes: int
    skipped_bytes: int
    oversized_frames: int
    overfull_holes: int
    overheld_waits: int
    packets: int
    bytes_to_server: int
    bytes_to_client: int
    cut_bytes: int
    """Bytes cut off by the snap length, which are part of `lost_bytes`, too."""
    retransmitted_segments: int
    conflicting_segments: int
    out_of_order_segments: int
    zero_windows: int
    duplicate_packets: int
    faults: int
    server_rtt: Latency | None
    client_rtt: Latency | None
