"""A report as values: every figure that the terminal shows and the JSON carries.

`build.report.build_report` makes a `Summary` from a merged partial and the facts of the capture. Times are
nanoseconds since the epoch (UTC), durations nanoseconds or, in names that end in `_ms`, milliseconds, sizes
bytes. None (null in JSON) is "not known" or "none seen". JSON has the names and the order of the attributes
here, and its schema takes descriptions from the docstrings (`python -m tests.docs` makes it).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from kdissect.report.model.call_figures import Figures, Latency
from kdissect.report.model.connection_rows import ConnectionTotals
from kdissect.report.model.findings import Finding, Location, Omission
from kdissect.report.model.incidents import Incident, Signal

SCHEMA_VERSION: Literal[1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureGap:
    """A stretch of time whose packets were captured, and skipped by a watch that was behind."""

    begin_ns: int
    end_ns: int
    packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFacts:
    """Facts from reading the packets of the captures, before anything was decoded."""

    files: tuple[str, ...] = ()
    packets: int = 0
    bytes: int = 0
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    link_types: tuple[str, ...] = ()
    tcp_packets: int = 0
    non_tcp_packets: int = 0
    fragments: int = 0
    malformed_packets: int = 0
    """Packets whose headers are wrong, cut off, or inside too many tunnels."""
    unknown_link_packets: int = 0
    tunnelled_packets: int = 0
    attempts: int = 0
    """Connection attempts without an answer that were not followed, beyond a limit."""
    truncated_packets: int = 0
    dropped_packets: int = 0
    """Packets dropped during the capture, as the capture file reports, or skipped by a watch."""
    gaps: tuple[CaptureGap, ...] = ()
    """Times that a watch has skipped, in order; gaps that are near each other are one."""
    clock_steps: int = 0
    largest_clock_step_ns: int = 0
    largest_clock_step: Location | None = None
    """The packet whose time is that far before the time of the previous packet."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRow:
    """One API at one version; all null for responses whose request was not captured."""

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
    """The name that a client gives itself, and the host it connects from."""

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
    """One server address; the node id comes from Metadata and similar responses."""

    server_host: str | None
    server_port: int | None
    node_id: int | None
    connections: int
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicClient:
    """The part of one client in a topic."""

    name: ClientName
    exchanges: int
    records: int
    record_bytes: int
    errors: int
    groups: tuple[str, ...]
    """Groups under whose name this client committed, or queried, offsets of the topic."""
    first_time_ns: int | None
    last_time_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """Use of a topic by one API.

    `errors` counts partitions, `codecs` record bytes by codec. `sampled_bytes` of what was written
    without compression were compressed with LZ4 as a sample, to `sampled_lz4_bytes`.
    """

    api_key: int
    api_name: str | None
    exchanges: int
    mentions: int
    """Partitions named, by all exchanges together."""
    records: int
    batches: int
    record_bytes: int
    errors: int
    sampled_bytes: int
    sampled_lz4_bytes: int
    unanswered: int
    throttled: int
    doubtful: int
    """Exchanges on connections of which the capture misses bytes."""
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
    """One error code of one API: exchanges and partitions that carry it, and its first location."""

    api_key: int | None
    api_name: str | None
    error_code: int
    error_name: str | None
    exchanges: int
    partitions: int
    first: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """Messages that could not be decoded, by API, version and shape of the fault."""

    api_key: int | None
    api_name: str | None
    api_version: int | None
    shape: str
    """The text of the fault with `#` for numbers; `first.detail` is an example."""
    exchanges: int
    first: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityCounter:
    """Something missing or uncertain in the capture: how often, of how many, and what it means."""

    name: str
    count: int
    of: int | None
    """Null if there is no total."""
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted:
    """Rows left out of lists that would be too long."""

    clients: Omission
    brokers: Omission
    topics: Omission
    topic_clients: Omission
    faults: Omission
    notable: Omission
    """Groups of exchanges that findings did not look at."""


class ProfileBy(StrEnum):
    """Subject that the profile ranks."""

    API = "api"
    CLIENT = "client"
    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """One row of the profile: its name, what tells it apart, and its figures."""

    label: str | None
    """Name from the capture; null if there is none."""
    detail: str | None
    """Name of the row: versions, host and software, node, or API."""
    exchanges: int
    error_responses: int
    """Responses with an error code, at the top or anywhere inside; of a topic, partitions with an error."""
    unanswered: int
    throttled: int
    doubtful: int
    """Exchanges on connections of which the capture misses bytes."""
    time_share: float
    """Part of the service time of the whole capture, 0 to 1."""
    service: Latency | None
    idle: Latency | None
    """Long polls and waits for group members, which are not service time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The ranking: rows by service time, and how many were left out."""

    by: ProfileBy
    rows: tuple[ProfileRow, ...]
    omitted: Omission


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFilter:
    """An option that narrowed the report, and its values."""

    option: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A report of kdissect analyze.

    Lists are ranked by service time, topics by bytes, errors and faults by count. Times are nanoseconds since
    the epoch (UTC). Names that end in _ns are durations in nanoseconds, in _ms milliseconds, in _bytes sizes
    in bytes. Null is not known, or none.
    """

    schema_version: Literal[1]
    """Grows when a field is renamed, removed or changes its meaning; fields may be added without."""
    kdissect_version: str
    histogram_edges_ns: tuple[int, ...]
    """Edges of the histogram cells.

    The first cell counts what is below the first edge, the last cell what is at or above the last one.
    """
    capture: CaptureFacts
    filters: tuple[AppliedFilter, ...]
    """The options that narrowed the report, and their values; empty for all of the capture."""
    connections: ConnectionTotals
    totals: Figures
    findings: tuple[Finding, ...]
    """Findings, most severe first."""
    incidents: tuple[Incident, ...]
    """Incidents by cause, the greatest impact first."""
    signals: tuple[Signal, ...]
    """Dated facts about servers, clients and other subjects, in the order of time."""
    profile: Profile
    apis: tuple[ApiRow, ...]
    clients: tuple[ClientRow, ...]
    brokers: tuple[BrokerRow, ...]
    topics: tuple[TopicRow, ...]
    errors: tuple[ErrorRow, ...]
    faults: tuple[FaultRow, ...]
    doubts: tuple[QualityCounter, ...]
    """Gaps and uncertainties of the capture."""
    omitted: Omitted
