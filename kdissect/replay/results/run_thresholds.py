"""`--fail-on`: conditions over a comparison that make a script's run fail, such as `new_error>0.1%,p99_ratio>1.5`."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

VERDICTS = ("diverged", "invalid")


class Threshold(NamedTuple):
    """One condition."""

    name: str
    limit: float | None  # None: a verdict

    def __str__(self) -> str:
        return self.name if self.limit is None else f"{self.name}>{self.limit:g}"


def thresholds(text: str) -> tuple[Threshold, ...]:
    """Read conditions. Raises ValueError with one sentence."""
    return tuple(_threshold(part.strip()) for part in text.split(",") if part.strip())


def _threshold(text: str) -> Threshold:
    if text in VERDICTS:
        return Threshold(text, None)
    found = re.fullmatch(r"(\w+)\s*>\s*(\d+(?:\.\d+)?)(%?)", text)
    if not found or found[1] not in MEASURES:
        known = ", ".join((*(f"{name}>NUMBER" for name in MEASURES), *VERDICTS))
        raise ValueError(f"{text!r} is no condition; there are {known}")
    return Threshold(found[1], float(found[2]) / (100 if found[3] else 1))


def exceeded(wanted: tuple[Threshold, ...], report: Mapping[str, Any]) -> list[str]:
    """Give the conditions that hold, each with its value."""
    found = []
    for each in wanted:
        if each.limit is None:
            if report["verdict"] == each.name or (each.name == "diverged" and report["verdict"] == "invalid"):
                found.append(f"the verdict is {report['verdict']}")
        else:
            value = MEASURES[each.name](report)
            if value > each.limit:
                found.append(f"{each.name} is {value:.4g}, more than {each.limit:g}")
    return found


def _share(kinds: tuple[str, ...]) -> Callable[[Mapping[str, Any]], float]:
    def measure(report: Mapping[str, Any]) -> float:
        wrong = sum(
            each["requests"] for each in report["errors"] if each["kind"] in kinds and not each["expected"]
        )
        return float(wrong / max(report["accounting"]["sent"], 1))

    return measure


def _failed_checks(report: Mapping[str, Any]) -> float:
    return sum(not each["holds"] for each in report["checks"])


def _ratio(report: Mapping[str, Any]) -> float:
    ratios = [
        each["p99_ratio"] for each in report["latency"].values() if each["p99_ratio"] and not each["few"]
    ]
    return max(ratios, default=0.0)


def _skipped(report: Mapping[str, Any]) -> float:
    sums = report["accounting"]
    own = sums["captured"] - sums["sent"]
    return float(own / max(sums["captured"], 1))


MEASURES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "new_error": _share(("new",)),
    "mutated_error": _share(("mutated",)),
    "error": _share(("new", "mutated")),
    "failed_checks": _failed_checks,
    "p99_ratio": _ratio,
    "skipped": _skipped,
}
