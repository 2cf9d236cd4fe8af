"""Parts of a finding: a severity, a sentence, and evidence with its location in the capture."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple


class Keywords(NamedTuple):
    """Keywords of the JSON Schema that a type does not show."""

    minimum: int


Omission = Annotated[int, Keywords(minimum=0)]
"""How many rows were left out."""


@dataclass(frozen=True, slots=True)  # not only by keyword: 100,000 are made of columns at once
class Location:
    """Location in the capture: time, packets, connection, client and topic."""

    time_ns: int | None
    capture_file: str | None
    request_packet: int | None
    """Number of the packet in `capture_file`, from 1 as Wireshark counts."""
    response_packet: int | None
    """Number of the packet of the response."""
    connection: int | None
    client_host: str | None
    client_port: int | None
    server_host: str | None
    server_port: int | None
    client_id: str | None
    topic: str | None
    partition: int | None
    detail: str | None
    """The text of a fault."""
    request_time_ns: int | None = None
    """Time of `request_packet`."""
    response_time_ns: int | None = None
    """Time of `response_packet`."""


class Severity(StrEnum):
    """Critical: requests fail or data is at risk; warning: something is wrong; note: worth knowing."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing a finding rests on."""

    subject: str
    """Who or what, in names from the capture."""
    detail: str
    """Observation about the subject."""
    count: int
    first_time_ns: int | None
    last_time_ns: int | None
    place: Location | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of a rule: a sentence, its strongest evidence, what it means and what to look at next."""

    name: str
    """The name of the rule, which stays the same."""
    severity: Severity
    title: str
    """The finding in one sentence."""
    count: int
    first_time_ns: int | None
    last_time_ns: int | None
    evidence: tuple[Evidence, ...]
    """The strongest first."""
    evidence_omitted: Omission
    means: str
    next: str
    """The next thing to look at."""
    incident: int | None = None
    """Index in `incidents` of the one that explains all of it, null if none does."""
