"""Conditions under which a report is bad news for a script: findings of a severity, and figures beyond a limit.

    slow_broker=warning      the finding is there, at least as severe
    any=critical             some finding is
    produce.p99>50ms         a latency of all calls of an API, or of `all`
    fetch.errors>1%          calls with an error, not answered or throttled: a number, or a part of the calls

A condition on an API that the capture does not have holds only for counts: no calls are fewer than one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt

from kdissect.protocol.schema.registry import APIS
from kdissect.report.findings.rules import RULES
from kdissect.report.model import (
    Finding,
    Latency,
    ProfileRow,
    Severity,
    Summary,
)
from kdissect.units import (
    duration,
    number,
    share,
)

ANY, ALL = "any", "all"
ORDER = tuple(Severity)
OPERATORS: Mapping[str, Callable[[float, float], bool]] = {">=": ge, "<=": le, ">": gt, "<": lt}
LATENCIES: Mapping[str, Callable[[Latency], int]] = {
    "mean": lambda latency: latency.mean_ns,
    "p50": lambda latency: latency.p50_ns,
    "p90": lambda latency: latency.p90_ns,
    "p99": lambda latency: latency.p99_ns,
    "p99.9": lambda latency: latency.p99_9_ns,
    "max": lambda latency: latency.max_ns,
}
COUNTS: Mapping[str, Callable[[ProfileRow], int]] = {
    "calls": lambda row: row.exchanges,
    "errors": lambda row: row.error_responses,
    "unanswered": lambda row: row.unanswered,
    "throttled": lambda row: row.throttled,
}
NS_OF = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
FINDING = re.compile(r"(\w+)=(\w+)")
LIMIT = re.compile(r"(\w+)\.([\w.]+?)\s*(>=|<=|>|<)\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|%)?")


class NoCondition(Exception):
    """The text is no condition, or names what does not exist; the message says what would."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition, and the sentences for which it holds."""

    text: str
    held: Callable[[Summary], list[str]]


def condition(text: str) -> Condition:
    """Read a condition; raise NoCondition if it is none."""
    if found := FINDING.fullmatch(text.strip()):
        return Condition(text, _finding(found[1], found[2]))
    if found := LIMIT.fullmatch(text.strip()):
        return Condition(text, _limit(*found.groups()))
    raise NoCondition(
        f"{text!r} is no condition; slow_broker=warning, any=critical and 'produce.p99>50ms' are"
    )


def _finding(name: str, severity: str) -> Callable[[Summary], list[str]]:
    names = [rule.name for rule in RULES]
    if name not in (*names, ANY):
        raise NoCondition(f"{name!r} is no finding; {ANY}, {', '.join(names)} are")
    if severity not in list(Severity):
        raise NoCondition(f"{severity!r} is no severity; {', '.join(Severity)} are")
    least = ORDER.index(Severity(severity))

    def counts(finding: Finding) -> bool:
        return name in (finding.name, ANY) and ORDER.index(finding.severity) <= least

    return lambda summary: [
        f"{row.name} is {row.severity}: {row.title}" for row in summary.findings if counts(row)
    ]


def _limit(
    scope: str, figure: str, operator: str, amount: str, unit: str | None
) -> Callable[[Summary], list[str]]:
    apis = {api.name.lower(): api.name for api in APIS.values()} | {ALL: ALL}
    if scope.lower() not in apis:
        raise NoCondition(f"{scope!r} is no API of Kafka ('kdissect schema' lists them; {ALL} means all)")
    if figure not in (*LATENCIES, *COUNTS):
        raise NoCondition(f"{figure!r} is no figure; {', '.join((*LATENCIES, *COUNTS))} are")
    if (figure in LATENCIES) != (unit in NS_OF):
        unlike = "a time such as 50ms" if figure in LATENCIES else "a number or a part such as 1%"
        raise NoCondition(f"{figure} is compared with {unlike}")
    limit = float(amount) * NS_OF.get(unit or "", 1)
    beyond, told = OPERATORS[operator], f"{operator} {amount}{unit or ''}"

    def held(summary: Summary) -> list[str]:
        row = _everything(summary) if scope.lower() == ALL else _row(summary, apis[scope.lower()])
        value, shown = _value(row, figure, part=unit == "%")
        return [f"{scope}.{figure} is {shown}, {told}"] if value is not None and beyond(value, limit) else []

    return held


def _value(row: ProfileRow | None, figure: str, *, part: bool) -> tuple[float | None, str]:
    if figure in LATENCIES:
        latency = LATENCIES[figure](row.service) if row and row.service else None
        return latency, duration(latency)
    count = COUNTS[figure](row) if row else 0
    if not part:
        return count, number(count)
    of = row.exchanges if row else 0
    return (100 * count / of, share(count / of)) if of else (None, "-")


def _row(summary: Summary, api: str) -> ProfileRow | None:
    return next((row for row in summary.profile.rows if row.label == api), None)


def _everything(summary: Summary) -> ProfileRow:
    totals = summary.totals
    return ProfileRow(
        label=None, detail=None, exchanges=totals.exchanges, error_responses=totals.error_responses,
        unanswered=totals.unanswered, throttled=totals.throttled, doubtful=totals.doubtful, time_share=1.0,
        service=totals.service, idle=totals.idle,
    )  # fmt: skip
