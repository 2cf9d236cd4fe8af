"""Two reports, row by row: what got slower, what fails that did not, which clients and findings came and went.

In come reports as their JSON says them (`json.to_plain`), so that a capture and a report of last month compare alike. Nothing is
called slower because a number is higher. A percentile got slower (or faster) when its confidence interval after lies wholly
beyond that before (`confidence`): with intervals of 95 % each and samples of like size, chance alone does that in fewer than
one of a hundred pairs.
A part of calls that fail grew when the Wilson intervals of both parts do not meet. Where there are too few values for an
interval, that is said instead.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import Any

from kdissect.report.aggregate.confidence import Z

Plain = Mapping[str, Any]
PERCENTILES = ("p50", "p90", "p99")


class Difference(StrEnum):
    """What can be said of one figure of one row."""

    SLOWER = "slower"
    FASTER = "faster"
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
    """One row of the profiles."""

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
        """What to say of the row as a whole: the worst that is certain, else that nothing is."""
        verdicts = [row.verdict for row in self.percentiles]
        return next((one for one in Difference if one in verdicts), Difference.FEW)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was there before only, or after only, or differently."""

    subject: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that changed; rows are in order of their time after, then before."""

    by: str
    before: str
    after: str
    rows: tuple[ComparisonRow, ...]
    errors: tuple[Change, ...]
    clients: tuple[Change, ...]
    versions: tuple[Change, ...]
    findings: tuple[Change, ...]


def compare(before: Plain, after: Plain) -> Comparison:
    """Compare two reports that rank by the same."""
    return Comparison(
        by=after["profile"]["by"],
        before=", ".join(before["capture"]["files"]),
        after=", ".join(after["capture"]["files"]),
        rows=tuple(_rows(before, after)),
        errors=tuple(_changes(_errors(before), _errors(after))),
        clients=tuple(_changes(_software(before), _software(after))),
        versions=tuple(_changes(_versions(before), _versions(after))),
        findings=tuple(_changes(_findings(before), _findings(after))),
    )


def _rows(before: Plain, after: Plain) -> Iterable[ComparisonRow]:
    by = before["profile"]["by"]
    old, new = ({_key(row, by): row for row in report["profile"]["rows"]} for report in (before, after))
    for key in (*new, *(key for key in old if key not in new)):
        yield _row(key[0], old.get(key), new.get(key), by)


def _key(row: Plain, by: str) -> tuple[str | None, str | None]:
    """Give what makes two rows the same: versions of an API and software of a client may change, its host may not."""
    detail = row["detail"] or ""
    return row["label"], detail if by == "topic" else detail.partition(", ")[0] if by == "client" else None


def _row(label: str | None, before: Plain | None, after: Plain | None, by: str) -> ComparisonRow:
    calls = [row["exchanges"] if row else 0 for row in (before, after)]
    errors = [row["error_responses"] if row else 0 for row in (before, after)]
    details = [row["detail"] for row in (before, after) if row and row["detail"]]
    detail = details[-1] if by != "api" and details else " > ".join(dict.fromkeys(details)) or None
    return ComparisonRow(
        label=label,
        detail=detail,
        calls_before=calls[0],
        calls_after=calls[1],
        errors_before=errors[0],
        errors_after=errors[1],
        errors_verdict=more_often(errors[0], calls[0], errors[1], calls[1]),
        percentiles=tuple(_percentile(name, before, after) for name in PERCENTILES),
    )


def _percentile(name: str, before: Plain | None, after: Plain | None) -> PercentileComparison:
    old, new = ((row["service"] if row else None) for row in (before, after))
    return PercentileComparison(
        percentile=name,
        before_ns=old[f"{name}_ns"] if old else None,
        after_ns=new[f"{name}_ns"] if new else None,
        verdict=_verdict(old[f"{name}_between_ns"], new[f"{name}_between_ns"])
        if old and new
        else Difference.ONLY_AFTER
        if new
        else Difference.ONLY_BEFORE
        if old
        else Difference.FEW,
    )


def _verdict(before: list[int] | None, after: list[int] | None) -> Difference:
    if before is None or after is None:
        return Difference.FEW
    if after[0] > before[1]:
        return Difference.SLOWER
    return Difference.FASTER if after[1] < before[0] else Difference.SAME


def more_often(before: int, of_before: int, after: int, of_after: int) -> str:
    """Say whether something happens in a larger or smaller part of the calls than before, or that nothing shows it."""
    if not of_before or not of_after or before == after == 0:
        return ""
    (low_before, high_before), (low_after, high_after) = wilson(before, of_before), wilson(after, of_after)
    if low_after > high_before:
        return "more"
    return "fewer" if high_after < low_before else "too few to tell"


def wilson(count: int, of: int) -> tuple[float, float]:
    """Give the Wilson score interval of a part at the confidence of `confidence`."""
    part, weight = count / of, Z * Z / of
    middle, reach = part + weight / 2, Z * sqrt(part * (1 - part) / of + weight / of / 4)
    return (middle - reach) / (1 + weight), (middle + reach) / (1 + weight)


def _errors(report: Plain) -> dict[str, str]:
    return {
        f"{row['api_name'] or row['api_key']} {row['error_name'] or row['error_code']}": f"{row['exchanges']:,} {'answer' if row['exchanges'] == 1 else 'answers'}"
        for row in report["errors"]
    }


def _software(report: Plain) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for row in report["clients"]:
        software = " ".join(
            part for part in (row["client_software_name"], row["client_software_version"]) if part
        )
        name = row["client_id"] if row["client_id"] is not None else "(no client id)"
        found.setdefault(name, set()).add(software or "software not told")
    return {name: ", ".join(sorted(software)) for name, software in found.items()}


def _versions(report: Plain) -> dict[str, str]:
    found: dict[str, set[int]] = {}
    for row in report["apis"]:
        if row["api_version"] is not None and row["api_name"] is not None:
            found.setdefault(row["api_name"], set()).add(row["api_version"])
    return {name: ", ".join(map(str, sorted(versions))) for name, versions in found.items()}


def _findings(report: Plain) -> dict[str, str]:
    return {row["name"]: f"{row['severity']}: {row['title']}" for row in report["findings"]}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[Change]:
    """Give what is on one side only, then what is on both and differs in more than a count."""
    for name in after:
        if name not in before:
            yield Change(name, None, after[name])
    for name in before:
        if name not in after:
            yield Change(name, before[name], None)
    for name in after:
        if name in before and not _alike(before[name], after[name]):
            yield Change(name, before[name], after[name])


def _alike(before: str, after: str) -> bool:
    """Tell whether two texts say the same; counts and findings of the same severity differ in every capture."""
    if before.endswith((" answer", " answers")):
        return True
    severities = [text.partition(":")[0] for text in (before, after)]
    return before == after or (":" in before and severities[0] == severities[1])
