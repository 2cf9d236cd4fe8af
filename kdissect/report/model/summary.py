"""What a report says, as values: every figure that the terminal shows and the JSON carries.

A `Summary` is made by `summarise.summary` from a merged partial and the facts of the capture. Times are nanoseconds since
the epoch, durations nanoseconds (or milliseconds where Kafka says so), sizes bytes; None is "not known" or "none seen".
"""

from dataclasses import dataclass
from enum import StrEnum

SCHEMA_VERSION = 1

HISTOGRAM_EDGES_NS = (*(step * 10**power for power in range(4, 11) for step in (1, 2, 5)), 10**11)
"""10 µs, 20 µs, 50 µs … 50 s, 100 s: cell 0 of a histogram is below the first edge, the last one from the last edge on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFacts:
    """What the survey of the files found, before anything was decoded."""

    files: tuple[str, ...] = ()
    packets: int = 0
    bytes: int = 0
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    link_types: tuple[str, ...] = ()
    tcp_packets: int = 0
    non_tcp_packets: int = 0
    fragments: int = 0
    malformed_packets: int = 0  # headers that are wrong, cut off, or nested deeper than is read
    unknown_link_packets: int = 0
    tunnelled_packets: int = 0
    attempts: int = 0  # connections that never came to be, beyond as many as were followed
    truncated_packets: int = 0
    dropped_packets: int = 0  # that were lost in capturing, as the capture itself says
    clock_steps: int = 0
    largest_clock_step_ns: int = 0
    largest_clock_step: "Location | None" = None  # the packet whose time is that far before the one before it
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Times of answered exchanges; percentiles are nearest-rank and within 0.4 %, everything else is exact."""

    count: int
    sum_ns: int
    mean_ns: int
    min_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p99_9_ns: int
    max_ns: int
    variance_to_mean_ns: int
    p50_between_ns: tuple[int, int] | None
    """Bounds that hold the true median with 95 % confidence (see `confidence`); None when there are too few values for any."""
    p90_between_ns: tuple[int, int] | None
    p99_between_ns: tuple[int, int] | None
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is counted for any set of exchanges."""

    exchanges: int
    answered: int
    no_response_expected: int
    unanswered: int
    unanswered_closed: int
    """Of these: the connection was closed before an answer, and the capture lost nothing of it."""
    unanswered_open: int
    """Of these: the connection was still open when the capture ended."""
    unanswered_lossy: int
    """Of these: the capture misses bytes of the connection, or all of one direction; an answer may have come."""
    orphan_responses: int
    error_responses: int
    errors: int
    faults: int
    request_bytes: int
    response_bytes: int
    throttled: int
    throttle_ms: int
    throttle_max_ms: int
    pipelined: int
    in_flight_max: int
    acks_none: int
    acks_leader: int
    acks_all: int
    transfer_ns: int
    transfer_max_ns: int
    untimed: int
    """Answered, but with a latency that cannot be: negative or of days."""
    doubtful: int
    """Exchanges on connections of which the capture misses bytes."""
    first_time_ns: int | None
    last_time_ns: int | None
    time_share: float
    """Part of the service time of the whole capture, 0 to 1."""
    service: Latency | None
    idle: Latency | None
    """Long polls and waits for group members: not service time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """One sighting: where to look in the capture."""

    time_ns: int | None
    capture_file: str | None
    request_packet: int | None
    response_packet: int | None
    connection: int | None
    client_host: str | None
    client_port: int | None
    server_host: str | None
    server_port: int | None
    client_id: str | None
    topic: str | None
    partition: int | None
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRow:
    """One API at one version; all null for answers whose request was not captured."""

    api_key: int | None
    api_name: str | None
    api_version: int | None
    figures: Figures
    slowest: Location | None
    first_unanswered: Location | None
    first_orphan: Location | None
    first_throttled: Location | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientName:
    """Who a client says it is, and where it calls from."""

    client_id: str | None
    client_software_name: str | None
    client_software_version: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """One client id, software and host."""

    name: ClientName
    connections: int
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """One server address; the node id comes from Metadata and similar answers."""

    server_host: str | None
    server_port: int | None
    node_id: int | None
    connections: int
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicClient:
    """One client's part in a topic; `groups` are those under whose name it committed or asked for offsets of the topic."""

    name: ClientName
    exchanges: int
    records: int
    record_bytes: int
    errors: int
    groups: tuple[str, ...]
    first_time_ns: int | None
    last_time_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """What one API did with a topic; `errors` counts partitions, `codecs` record bytes by codec.

    `sampled_bytes` of what was written without compression were tried with LZ4, which made `sampled_lz4_bytes` of them.
    """

    api_key: int
    api_name: str | None
    exchanges: int
    mentions: int
    records: int
    batches: int
    record_bytes: int
    errors: int
    sampled_bytes: int
    sampled_lz4_bytes: int
    codecs: dict[str, int]
    service: Latency | None
    idle: Latency | None
    clients: tuple[TopicClient, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic; without a name in the capture its id stands for it, and `resolved` is false."""

    topic: str
    topic_ids: tuple[str, ...]
    resolved: bool
    partitions: int
    uses: tuple[TopicUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """One error code of one API: exchanges that carry it, partitions that carry it, and the first place."""

    api_key: int | None
    api_name: str | None
    error_code: int
    error_name: str | None
    exchanges: int
    partitions: int
    first: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """Captured bytes that could not be decoded; `#` stands for numbers in `shape`, `first.detail` is an example."""

    api_key: int | None
    api_name: str | None
    api_version: int | None
    shape: str
    exchanges: int
    first: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRow:
    """Connections that speak one protocol."""

    protocol: str
    connections: int
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareRow:
    """Client software, as clients name it in ApiVersions, and the Kafka connections it made."""

    software_name: str
    software_version: str | None
    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsRow:
    """Connections under TLS with one version, cipher suite, outcome of the handshake, alert and success of decryption."""

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
    closed_by_fin: int
    closed_by_rst: int
    still_open: int
    lossy: int
    lost_bytes: int
    skipped_bytes: int
    oversized_frames: int
    overfull_holes: int
    overheld_waits: int
    packets: int
    bytes_to_server: int
    bytes_to_client: int
    cut_bytes: int
    retransmitted_segments: int
    conflicting_segments: int
    out_of_order_segments: int
    zero_windows: int
    duplicate_packets: int
    faults: int
    server_rtt: Latency | None
    client_rtt: Latency | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityCounter:
    """Something the capture cannot tell: how often, of how many, and which figures it touches."""

    name: str
    count: int
    of: int | None
    means: str


class Severity(StrEnum):
    """How much a finding matters: requests fail or data is at risk, something is wrong, or worth knowing."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing a finding rests on: who or what (names from the capture), what about it, how often, from when to when, where."""

    subject: str
    detail: str
    count: int
    first_time_ns: int | None
    last_time_ns: int | None
    place: Location | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule found: a sentence, its evidence (the weightiest first), what it means and what to look at next."""

    name: str
    severity: Severity
    title: str
    count: int
    first_time_ns: int | None
    last_time_ns: int | None
    evidence: tuple[Evidence, ...]
    evidence_omitted: int
    means: str
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted:
    """Rows left out of lists that would be endless."""

    clients: int
    brokers: int
    topics: int
    topic_clients: int
    faults: int
    notable: int
    """Groups of exchanges that findings did not look at."""


class ProfileBy(StrEnum):
    """What the profile ranks."""

    API = "api"
    CLIENT = "client"
    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """One row of the profile: its name from the capture, what tells it apart, and its figures."""

    label: str | None
    detail: str | None
    exchanges: int
    error_responses: int
    unanswered: int
    throttled: int
    doubtful: int
    time_share: float
    service: Latency | None
    idle: Latency | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The ranking: rows by service time, and how many were left out."""

    by: ProfileBy
    rows: tuple[ProfileRow, ...]
    omitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFilter:
    """An option that narrowed the report, and what it was given."""

    option: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole report. Lists are ranked: by service time, topics by bytes, errors and faults by count."""

    schema_version: int
    kdissect_version: str
    histogram_edges_ns: tuple[int, ...]
    capture: CaptureFacts
    filters: tuple[AppliedFilter, ...]
    connections: ConnectionTotals
    totals: Figures
    findings: tuple[Finding, ...]
    profile: Profile
    apis: tuple[ApiRow, ...]
    clients: tuple[ClientRow, ...]
    brokers: tuple[BrokerRow, ...]
    topics: tuple[TopicRow, ...]
    errors: tuple[ErrorRow, ...]
    faults: tuple[FaultRow, ...]
    doubts: tuple[QualityCounter, ...]
    omitted: Omitted
