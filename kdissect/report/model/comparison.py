"""Comparison of two reports, as values: rows before and after, and what came, went or changed."""

from dataclasses import dataclass
from enum import StrEnum


class Difference(StrEnum):
    """Statement about a figure of a row; the order is that in which one stands for the whole row."""

    SLOWER = "slower"
    LIKELY_SLOWER = "likely slower"
    FASTER = "faster"
    LIKELY_FASTER = "likely faster"
    SAME = "no difference shown"
    FEW = "too few values"
    ONLY_BEFORE = "only before"
    ONLY_AFTER = "only after"


@dataclass(frozen=True, slots=True)
class PercentileComparison:
    """One percentile of one row, before and after."""

    percentile: str
    before_ns: int | None
    after_ns: int | None
    verdict: Difference


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One row of the profiles; `errors_verdict` is more, fewer, too few to tell, or empty without errors."""

    label: str | None
    detail: str | None
    calls_before: int
    calls_after: int
    errors_before: int
    errors_after: int
    errors_verdict: str
    percentiles: tuple[PercentileComparison, ...]

    @property
    def verdict(self) -> Difference:
        """Return the first difference, in the order of `Difference`, that a percentile has."""
        verdicts = [row.verdict for row in self.percentiles]
        return next((verdict for verdict in Difference if verdict in verdicts), Difference.FEW)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is in one report only (None in the other), or differs."""

    subject: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that changed; rows are in the order of the later report, then of the earlier one."""

    by: str
    before: str
    after: str
    rows: tuple[ComparisonRow, ...]
    errors: tuple[Change, ...]
    clients: tuple[Change, ...]
    versions: tuple[Change, ...]
    findings: tuple[Change, ...]
