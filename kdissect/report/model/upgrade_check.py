"""What an upgrade to a newer Kafka release would break, as values: the clients that are affected, and by what."""

from dataclasses import dataclass
from enum import StrEnum

from kdissect.report.model.summary import ClientName


class UpgradeVerdict(StrEnum):
    """What happens to a client."""

    BREAKS = "breaks"
    MAY_ADAPT = "may adapt"


@dataclass(frozen=True, slots=True)
class RemovedVersionUse:
    """A version that the release does not serve, and how often it was used; None is Kafka 0.7, without versions."""

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
    """Whether it sends requests of a ZooKeeper controller: a broker whose cluster must leave ZooKeeper first."""


@dataclass(frozen=True, slots=True)
class UpgradeCheck:
    """The result for one release."""

    release: str
    clients: int
    obstacles: tuple[AffectedClient, ...]
    connections_not_judged: int
    """Connections under TLS, or not recognised."""
