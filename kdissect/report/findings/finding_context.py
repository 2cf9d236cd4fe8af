"""Input and result of rules: observations, lags and figures of a capture; a judgement."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import api_name
from kdissect.report.model.call_figures import Figures
from kdissect.report.model.connection_rows import ConnectionTotals
from kdissect.report.model.findings import Evidence, Location, Severity
from kdissect.report.model.summary import CaptureFacts, TopicRow
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import ConnectionFacts
from kdissect.report.query.steady_pace import SteadyPace
from kdissect.report.wording import client_text

UNSEEN_LOSSES = 10
"""One of so many responses that the capture lost may seem never to have come."""


class Observation(NamedTuple):
    """Exchanges of one kind, client, API, error, group and partition.

    `closed_ns` is the end of a connection that was captured in full, None for others. `amount` and `most` are
    the sum and maximum of throttle times, or of latencies behind a long poll, in milliseconds. For errors
    `amount` is the number of requests, each at its first partition.
    """

    kind: str
    api_key: int | None
    api_version: int | None
    code: int | None
    group_id: str | None
    transactional_id: str | None
    replica_id: int | None
    generation: int | None
    second: int | None
    exchanges: int
    amount: int
    most: int
    first_ns: int
    last_ns: int
    closed_ns: int | None
    software: str | None
    location: Location

    @property
    def client(self) -> str:
        """Return the client id and its host."""
        return client_text(self.location.client_id, self.location.client_host)

    @property
    def partition(self) -> str | None:
        """Return topic and partition as topic-7, or the topic alone; None if there is no topic."""
        location = self.location
        return location.topic if location.partition is None else f"{location.topic}-{location.partition}"

    @property
    def api(self) -> str:
        """Return the name of the API."""
        return "?" if self.api_key is None else api_name(self.api_key)

    @property
    def error(self) -> str:
        """Return the name of the error."""
        return error_name(self.code or 0)


class ConsumerLag(NamedTuple):
    """How many records a client was behind in a partition: at its first and last fetch, and at most."""

    client: str
    topic: str
    before: int
    after: int
    most: int
    first_ns: int
    last_ns: int
    location: Location


@dataclass(frozen=True)
class FindingContext:
    """Everything that rules look at."""

    capture: CaptureFacts
    facts: ConnectionFacts
    connections: ConnectionTotals
    totals: Figures
    topics: tuple[TopicRow, ...]
    calls: CallTable
    observations: tuple[Observation, ...]
    lags: tuple[ConsumerLag, ...] = ()
    pace: SteadyPace | None = None
    """None if calls were not counted by time."""

    def of_kind(self, kind: str) -> list[Observation]:
        """Return the observations of a kind in the order of time."""
        return self._by_kind.get(kind, [])

    @cached_property
    def _by_kind(self) -> dict[str, list[Observation]]:
        """Return the observations by kind: dozens of rules ask, and there may be 100,000 of them."""
        by_kind: dict[str, list[Observation]] = {}
        for observation in self.observations:
            by_kind.setdefault(observation.kind, []).append(observation)
        return by_kind

    def believes_unanswered(self, requests: int) -> bool:
        """Return whether more requests have no response than a capture with losses makes it seem.

        Some responses that the capture lost leave no trace: nothing follows them on their connection.
        """
        return requests * UNSEEN_LOSSES > self.totals.unanswered_lossy

    def errors(self, codes: Iterable[int]) -> list[Observation]:
        """Return the observations of these error codes."""
        wanted = frozenset(codes)
        return [observation for observation in self.of_kind("error") if observation.code in wanted]


class Judgement(NamedTuple):
    """Result of a rule: a sentence and its evidence. A severity here takes the place of the rule's own."""

    title: str
    evidence: Sequence[Evidence]
    severity: Severity | None = None


class FindingRule(NamedTuple):
    """A name that stays, a severity, the function that judges, what it means and what to look at next."""

    name: str
    severity: Severity
    judge: Callable[[FindingContext], Judgement | None]
    means: str
    next: str
