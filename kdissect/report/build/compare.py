"""Two reports, row by row: what got slower, what fails now, which clients and findings came and went."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from operator import ne
from typing import Any, TypeAlias

from kdissect.report.aggregate.confidence import Z
from kdissect.report.model.comparison import (
    Change,
    Comparison,
    ComparisonRow,
    Difference,
    PercentileComparison,
)
from kdissect.report.wording import NO_CLIENT_ID, counted, software_text

PlainReport = Mapping[str, Any]
RowKey: TypeAlias = tuple[str | None, str | None]
NumberedKey: TypeAlias = tuple[str | None, str | None, int]
LIKELY_VALUES, LIKELY_TIMES, LIKELY_NS = 20, 3, 100_000_000
"""Values on either side, how many times as long, and how much longer a percentile is to be likely slower."""

PERCENTILES = ("p50", "p90", "p99")


def compare(before: PlainReport, after: PlainReport) -> Comparison:
    """Return the comparison of two reports whose profiles rank by the same."""
    return Comparison(
        by=after["profile"]["by"],
        before=", ".join(before["capture"]["files"]),
        after=", ".join(after["capture"]["files"]),
        rows=tuple(_rows(before, after)),
        errors=tuple(_changes(_errors(before), _errors(after), _never)),
        clients=tuple(_changes(_software(before), _software(after))),
        versions=tuple(_changes(_versions(before), _versions(after))),
        findings=tuple(_changes(_findings(before), _findings(after), _severities_differ)),
    )


def _rows(before: PlainReport, after: PlainReport) -> Iterator[ComparisonRow]:
    by = before["profile"]["by"]
    sides = [report["profile"]["rows"] for report in (before, after)]
    times = (Counter(_key(row, by) for row in rows) for rows in sides)
    repeated = {key for counts in times for key, count in counts.items() if count > 1}
    old, new = (_by_key(rows, by, repeated) for rows in sides)
    for key in (*new, *(key for key in old if key not in new)):
        yield _row(key[0], old.get(key), new.get(key), by)


def _by_key(rows: Sequence[PlainReport], by: str, repeated: set[RowKey]) -> dict[NumberedKey, PlainReport]:
    """Return the rows by their keys, with all details where a key is repeated, and numbered.

    Clients of one host differ in software only, and connections of a port that is used again in nothing.
    """
    found: dict[NumberedKey, PlainReport] = {}
    numbers: Counter[RowKey] = Counter()
    for row in rows:
        key = _key(row, by)
        full = (row["label"], row["detail"]) if key in repeated else key
        found[*full, numbers[full]] = row
        numbers[full] += 1
    return found


def _key(row: PlainReport, by: str) -> RowKey:
    """Return what makes two rows the same: versions and software of a row may change, hosts may not."""
    detail = row["detail"] or ""
    if by == "topic":
        return row["label"], detail
    return row["label"], detail.partition(", ")[0] if by == "client" else None


def _row(label: str | None, before: PlainReport | None, after: PlainReport | None, by: str) -> ComparisonRow:
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


def _percentile(name: str, before: PlainReport | None, after: PlainReport | None) -> PercentileComparison:
    old, new = ((row["service"] if row else None) for row in (before, after))
    return PercentileComparison(
        percentile=name,
        before_ns=old[f"{name}_ns"] if old else None,
        after_ns=new[f"{name}_ns"] if new else None,
        verdict=_difference(name, old, new),
    )


def _difference(name: str, before: PlainReport | None, after: PlainReport | None) -> Difference:
    if not before or not after:
        return Difference.ONLY_AFTER if after else Difference.ONLY_BEFORE if before else Difference.FEW
    old, new = (latency[f"{name}_between_ns"] for latency in (before, after))
    if old is None or new is None:
        return _likely(before[f"{name}_ns"], after[f"{name}_ns"], min(before["count"], after["count"]))
    if new[0] > old[1]:
        return Difference.SLOWER
    return Difference.FASTER if new[1] < old[0] else Difference.SAME


def _likely(before_ns: int, after_ns: int, values: int) -> Difference:
    """Return what percentiles without intervals suggest: only a change that is large is worth a word."""
    low, high = sorted((before_ns, after_ns))
    if values < LIKELY_VALUES or high < LIKELY_TIMES * low or high - low < LIKELY_NS:
        return Difference.FEW
    return Difference.LIKELY_SLOWER if after_ns == high else Difference.LIKELY_FASTER


def more_often(before: int, of_before: int, after: int, of_after: int) -> str:
    """Return in which share of the calls something happens: more, fewer, too few to tell; empty for never."""
    if not of_before or not of_after or before == after == 0:
        return ""
    (low_before, high_before), (low_after, high_after) = wilson(before, of_before), wilson(after, of_after)
    if low_after > high_before:
        return "more"
    return "fewer" if high_after < low_before else "too few to tell"


def wilson(count: int, of: int) -> tuple[float, float]:
    """Return the Wilson score interval of a share, at the confidence of `aggregate.confidence`.

    More than all count as all: reports of other versions count errors that are no calls.
    """
    part, weight = min(count / of, 1.0), Z * Z / of
    middle, reach = part + weight / 2, Z * sqrt(part * (1 - part) / of + weight / of / 4)
    return (middle - reach) / (1 + weight), (middle + reach) / (1 + weight)


def _errors(report: PlainReport) -> dict[str, str]:
    return {
        f"{row['api_name'] or row['api_key']} {row['error_name'] or row['error_code']}": counted(
            row["exchanges"], "response"
        )
        for row in report["errors"]
    }


def _software(report: PlainReport) -> dict[str, str]:
    clients: dict[str, set[str]] = {}
    for row in report["clients"]:
        name = row["client_id"] if row["client_id"] is not None else NO_CLIENT_ID
        software = software_text(row["client_software_name"], row["client_software_version"])
        clients.setdefault(name, set()).add(software or "unknown software")
    return {name: ", ".join(sorted(software)) for name, software in clients.items()}


def _versions(report: PlainReport) -> dict[str, str]:
    versions: dict[str, set[int]] = {}
    for row in report["apis"]:
        if row["api_version"] is not None and row["api_name"] is not None:
            versions.setdefault(row["api_name"], set()).add(row["api_version"])
    return {name: ", ".join(map(str, sorted(numbers))) for name, numbers in versions.items()}


def _findings(report: PlainReport) -> dict[str, str]:
    return {row["name"]: f"{row['severity']}: {row['title']}" for row in report["findings"]}


def _changes(
    before: Mapping[str, str], after: Mapping[str, str], differ: Callable[[str, str], bool] = ne
) -> Iterator[Change]:
    """Yield what is on one side only, then what is on both sides and differs."""
    for name in after:
        if name not in before:
            yield Change(name, None, after[name])
    for name in before:
        if name not in after:
            yield Change(name, before[name], None)
    for name in after:
        if name in before and differ(before[name], after[name]):
            yield Change(name, before[name], after[name])


def _never(_before: str, _after: str) -> bool:
    """Return False: the number of responses with an error differs in every capture."""
    return False


def _severities_differ(before: str, after: str) -> bool:
    """Return whether two findings differ in severity; their counts differ in every capture."""
    return before.partition(":")[0] != after.partition(":")[0]
