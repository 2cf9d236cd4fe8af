"""Subjects that `--fail-on` conditions on a report may name: findings, incidents, and figures of an API.

    slow_broker=warning      the finding is reported, at least as severe
    any=critical             some finding is
    broker_killed=critical   the incident is reported, at least as severe
    any_incident=warning     some incident is
    produce.p99>50ms         a latency of all calls of an API, or of `all`
    fetch.errors>1%          calls with an error, unanswered or throttled: a number, or a share of the calls

A condition on an API that the capture does not have is met only by counts: the API has 0 calls. Figures come
from the profile, which must rank by API.
"""

from collections.abc import Callable, Mapping

from kdissect.errors import UsageError
from kdissect.protocol.schema.registry import APIS
from kdissect.report.findings.rules import RULES
from kdissect.report.incidents.causes import CAUSES
from kdissect.report.model.call_figures import Latency
from kdissect.report.model.findings import Severity
from kdissect.report.model.summary import ProfileRow, Summary
from kdissect.report.thresholds import Figure, Measured, Statement, Unit
from kdissect.text import (
    format_count,
    format_duration,
    format_share,
)

ANY, ANY_INCIDENT, ALL = "any", "any_incident", "all"
SEVERITIES = tuple(Severity)
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


class SummaryVocabulary:
    """The vocabulary of conditions on a `Summary`."""

    examples = "slow_broker=warning, any=critical, 'produce.p99>50ms'"

    def figure(self, name: str, unit: Unit) -> Figure[Summary]:
        """Return a figure `api.name`. Raise UsageError if there is none, or if the unit does not fit."""
        scope, _, figure = name.partition(".")
        apis = {api.name.lower(): api.name for api in APIS.values()} | {ALL: None}
        if not figure:
            raise UsageError(f"{name!r} is not a figure of an API; examples: {self.examples}")
        if scope.lower() not in apis:
            raise UsageError(
                f"{scope!r} is not an API of Kafka; 'kdissect schema' lists them, {ALL} stands for all"
            )
        if figure not in (*LATENCIES, *COUNTS):
            raise UsageError(f"{figure!r} is not a figure; figures: {', '.join((*LATENCIES, *COUNTS))}")
        if (figure in LATENCIES) != (unit is Unit.DURATION):
            fitting = "a time such as 50ms" if figure in LATENCIES else "a number or a percentage such as 1%"
            raise UsageError(f"{figure} is compared with {fitting}")
        api = apis[scope.lower()]
        if figure in LATENCIES:
            return lambda summary: _latency(_row(summary, api), figure)
        return lambda summary: _count(_row(summary, api), figure, unit)

    def statement(self, name: str, value: str | None) -> Statement[Summary]:
        """Return a finding or an incident of at least a severity. Raise UsageError if it does not exist."""
        findings, causes = ([row.name for row in rows] for rows in (RULES, CAUSES))
        if value is None:
            raise UsageError(f"{name!r} is not a condition; examples: {self.examples}")
        if name not in (*findings, *causes, ANY, ANY_INCIDENT):
            raise UsageError(
                f"{name!r} is not a finding or an incident; findings: {ANY}, {', '.join(findings)}; "
                f"incidents: {ANY_INCIDENT}, {', '.join(causes)}"
            )
        if value not in SEVERITIES:
            raise UsageError(f"{value!r} is not a severity; severities: {', '.join(Severity)}")
        least = SEVERITIES.index(Severity(value))

        def finding_sentences(summary: Summary) -> list[str]:
            rows = [row for row in summary.findings if name in (row.name, ANY)]
            return [
                f"{row.name} is {row.severity}: {row.title}"
                for row in rows
                if SEVERITIES.index(row.severity) <= least
            ]

        def incident_sentences(summary: Summary) -> list[str]:
            rows = [row for row in summary.incidents if name in (row.cause, ANY_INCIDENT)]
            return [
                f"{row.cause} is {row.severity}: {row.headline}"
                for row in rows
                if SEVERITIES.index(row.severity) <= least
            ]

        return lambda summary: finding_sentences(summary) + incident_sentences(summary)


SUMMARY_VOCABULARY = SummaryVocabulary()


def _latency(row: ProfileRow | None, name: str) -> Measured | None:
    if row is None or row.service is None:
        return None
    ns = LATENCIES[name](row.service)
    return Measured(ns, format_duration(ns))


def _count(row: ProfileRow | None, name: str, unit: Unit) -> Measured | None:
    count = COUNTS[name](row) if row else 0
    if unit is Unit.NUMBER:
        return Measured(count, format_count(count))
    if row is None or not row.exchanges:
        return None
    part = count / row.exchanges
    return Measured(part, format_share(part))


def _row(summary: Summary, api: str | None) -> ProfileRow | None:
    """Return the row of an API, or one of all calls for None."""
    if api is not None:
        return next((row for row in summary.profile.rows if row.label == api), None)
    totals = summary.totals
    return ProfileRow(
        label=None,
        detail=None,
        exchanges=totals.exchanges,
        error_responses=totals.error_responses,
        unanswered=totals.unanswered,
        throttled=totals.throttled,
        doubtful=totals.doubtful,
        time_share=1.0,
        service=totals.service,
        idle=totals.idle,
    )
