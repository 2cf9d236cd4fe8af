"""Input and result of rules: everything that is known of a capture; a judgement."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kdissect.report.findings.observations import ConsumerLag, Observation, Observations, Rest
from kdissect.report.model.call_figures import Figures
from kdissect.report.model.connection_rows import ConnectionTotals
from kdissect.report.model.findings import Evidence, Severity
from kdissect.report.model.summary import CaptureFacts, TopicRow
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import ConnectionFacts
from kdissect.report.query.steady_pace import SteadyPace

MAX_EVIDENCE = 50
"""Rows of evidence of a finding."""

UNSEEN_LOSSES = 10
"""One of so many responses that the capture lost may seem never to have come."""


@dataclass(frozen=True)
class FindingContext:
    """Everything that rules look at."""

    capture: CaptureFacts
    facts: ConnectionFacts
    connections: ConnectionTotals
    totals: Figures
    topics: tuple[TopicRow, ...]
    calls: CallTable
    observations: Observations
    lags: tuple[ConsumerLag, ...] = ()
    pace: SteadyPace | None = None
    """None if calls were not counted by time."""

    def of_kind(self, kind: str) -> list[Observation]:
        """Return the observations of a kind in the order of time."""
        return self.observations.of_kind(kind)

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
    rest: Rest = Rest()
    """Further evidence, of which no rows were made."""


class FindingRule(NamedTuple):
    """A name that stays, a severity, the function that judges, what it means and what to look at next."""

    name: str
    severity: Severity
    judge: Callable[[FindingContext], Judgement | None]
    means: str
    next: str
