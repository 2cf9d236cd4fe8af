"""Breakage by an upgrade to a newer Kafka release, as values: affected clients and their versions."""

from dataclasses import dataclass
from enum import StrEnum

from kdissect.report.model.summary import ClientName


class UpgradeVerdict(StrEnum):
    """Outcome of an upgrade for a client."""

    BREAKS = "breaks"
    MAY_ADAPT = "may adapt"


@dataclass(frozen=True, slots=True)
class RemovedVersionUse:
    """Calls of a version that the release does not serve; the version is None for Kafka 0.7."""

    api_key: int
    api_name: str
    api_version: int | None
    exchanges: int


@dataclass(frozen=True, slots=True)
class AffectedClient:
    """One client that uses versions or message formats which the release no longer serves."""

    name: ClientName
    verdict: UpgradeVerdict
    used: tuple[RemovedVersionUse, ...]
    formats: tuple[str, ...]
    """`writes` and `reads`: what it does with message formats 0 and 1."""
    controller: bool
    """True if it sends requests of a ZooKeeper controller, so that its cluster must leave ZooKeeper first."""


@dataclass(frozen=True, slots=True)
class UpgradeCheck:
    """The result for one release."""

    release: str
    clients: int
    obstacles: tuple[AffectedClient, ...]
    connections_not_judged: int
    """Connections under TLS, or not recognised."""
