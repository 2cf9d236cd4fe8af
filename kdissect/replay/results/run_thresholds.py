"""The figures and statements that `--fail-on` may name for a comparison; `report.thresholds` has the grammar.

Shares count requests: `new_error` and `mutated_error` are parts of the requests that were sent, `skipped` is
a part of the captured ones. Errors that every cluster has at times of its own do not count.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kdissect.report.thresholds import Statement, TableVocabulary

Comparison = Mapping[str, Any]


def _share(kinds: tuple[str, ...]) -> Callable[[Comparison], float]:
    def measure(report: Comparison) -> float:
        wrong = sum(
            each["requests"] for each in report["errors"] if each["kind"] in kinds and not each["expected"]
        )
        return float(wrong / max(report["accounting"]["sent"], 1))

    return measure


def _failed_checks(report: Comparison) -> float:
    return sum(not each["holds"] for each in report["checks"])


def _ratio(report: Comparison) -> float:
    ratios = [
        each["p99_ratio"] for each in report["latency"].values() if each["p99_ratio"] and not each["few"]
    ]
    return max(ratios, default=0.0)


def _skipped(report: Comparison) -> float:
    accounting = report["accounting"]
    return float(accounting["skipped"] / max(accounting["captured"], 1))


FIGURES: Mapping[str, Callable[[Comparison], float]] = {
    "new_error": _share(("new",)),
    "mutated_error": _share(("mutated",)),
    "error": _share(("new", "mutated")),
    "failed_checks": _failed_checks,
    "p99_ratio": _ratio,
    "skipped": _skipped,
}


def _verdict(*verdicts: str) -> Statement[Comparison]:
    """Return the statement that the verdict is one of these."""

    def met(report: Comparison) -> list[str]:
        return [f"the verdict is {report['verdict']}"] if report["verdict"] in verdicts else []

    return met


def _slower(report: Comparison) -> list[str]:
    """Return that the target was slower than the reference, with what decided it."""
    performance = report["performance"]
    return [f"slower: {'; '.join(performance['because'])}"] if performance["verdict"] == "slower" else []


STATEMENTS = {
    "diverged": _verdict("diverged", "invalid"),
    "invalid": _verdict("invalid"),
    "slower": _slower,
}
COMPARISON_VOCABULARY: TableVocabulary[Comparison] = TableVocabulary(FIGURES, STATEMENTS)
