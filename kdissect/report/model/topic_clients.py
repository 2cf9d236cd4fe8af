"""Who writes and who reads a topic, as values."""

from dataclasses import dataclass

from kdissect.report.model.summary import TopicClient


@dataclass(frozen=True, slots=True)
class TopicClientRate:
    """One client of a topic with its rates; None if the capture has no span of time."""

    client: TopicClient
    records_per_s: float | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class TopicClients:
    """A topic with its writers and readers, those with the most bytes first."""

    topic: str
    writers: tuple[TopicClientRate, ...]
    readers: tuple[TopicClientRate, ...]
