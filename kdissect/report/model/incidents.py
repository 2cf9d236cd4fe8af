"""Incidents by cause: signals (dated facts about a subject) and the incidents that they add up to.

A signal judges nothing. An incident is one cause with its subject, its time, its impact, and the signals that
it explains. Servers and clients have one name each throughout: "broker 3 (10.1.0.3:9092)" and
"billing-1 at 10.1.0.9".
"""

from dataclasses import dataclass
from enum import StrEnum

from kdissect.report.model.findings import Evidence, Severity


class SubjectKind(StrEnum):
    """Kind of subject of a signal or an incident."""

    CLUSTER = "cluster"
    SERVER = "server"
    HOST = "host"
    PATH = "path"
    CLIENT = "client"
    CONNECTION = "connection"
    GROUP = "group"
    PRODUCER = "producer"
    TOPIC = "topic"
    PARTITION = "partition"
    USER = "user"
    CAPTURE = "capture"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who or what: a kind, and the name that an operator uses."""

    kind: SubjectKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A dated, measured fact about a subject, which judges nothing."""

    kind: str
    """The name of the kind, which stays the same."""
    subject: Subject
    begin_ns: int
    end_ns: int | None
    """Null if it lasts to the end of the capture."""
    sentence: str
    """Subject, verb, figures, time."""
    measures: dict[str, int]
    """Measured figures by name; names of durations end in _ns or _ms."""
    servers: tuple[str, ...]
    """Servers that it touches."""
    clients: tuple[str, ...]
    """Clients that it touches."""
    groups: tuple[str, ...]
    """Groups that it touches."""
    topics: tuple[str, ...]
    """Topics that it touches."""
    requests: int
    """Requests, or attempts to connect, that were delayed or failed."""
    wait_ns: int
    """How long these requests waited, together."""
    evidence: tuple[Evidence, ...]
    """The strongest first."""
    incident: int | None = None
    """Index in `incidents` of the one that explains it, null if none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Impact of an incident on clients."""

    clients: tuple[str, ...]
    requests: int
    """Requests, or attempts to connect, that were delayed or failed: the sum of the next five."""
    delayed: int
    """Requests that were answered late, or wait at the end."""
    failed: int
    """Requests that were refused with an error."""
    cut: int
    """Requests that never got a response."""
    attempts: int
    """Attempts to connect."""
    other: int
    """Requests that were answered well and are part of the trouble, such as joins of a rebalance."""
    errors: tuple[str, ...]
    """Names of the errors of failed requests, as far as signals have one."""
    wait_ns: int
    """How long these requests waited, together."""
    share: float
    """Part of all exchanges of the capture, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One cause: what happened, to whom, when, what it led to, and how certain that is."""

    cause: str
    """The name of the cause, which stays the same."""
    severity: Severity
    subject: Subject
    begin_ns: int
    end_ns: int | None
    """Null if it lasts to the end of the capture."""
    headline: str
    """Subject, verb, time, figures."""
    consequences: tuple[str, ...]
    """Consequences, the greatest impact first."""
    impact: Impact
    confidence: float
    """0 to 1; 1 where the capture shows the cause itself."""
    speaks_for: tuple[str, ...]
    """Why this is the cause, where it is a guess."""
    speaks_against: tuple[str, ...]
    """Facts that do not fit, or another explanation."""
    signals: tuple[int, ...]
    """Indexes in `signals` of those that it explains, those of the cause itself first."""
    evidence: tuple[Evidence, ...]
    """The strongest first."""
    means: str
    next: str
    """The next thing to look at."""
