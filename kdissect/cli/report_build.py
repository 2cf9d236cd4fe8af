"""From captures that were looked over to a `Summary`, under the names that may be told."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kdissect.cli.context import (
    NothingToReport,
    Ready,
    nothing_found,
)
from kdissect.cli.filter_options import told

if TYPE_CHECKING:
    from kdissect.report.model.summary import (
        AppliedFilter,
        CaptureFacts,
        ProfileBy,
        Summary,
    )
    from kdissect.report.partials import Partial
    from kdissect.report.timeline.grid import Grid
    from kdissect.spark.jobs import Analysis


class Reported(NamedTuple):
    """What a report rests on, to be composed."""

    partial: "Partial"
    facts: "CaptureFacts"
    filters: "tuple[AppliedFilter, ...]"

    def summary(self, by: "ProfileBy | None" = None) -> "Summary":
        """Give the report, its profile ranked by API if nothing else is asked for."""
        from kdissect.report.build.report import build_report
        from kdissect.report.model.summary import ProfileBy

        return build_report(self.partial, self.facts, by=by or ProfileBy.API, filters=self.filters)


def reported(
    ready: Ready, chosen: argparse.Namespace, grid: "Grid | None" = None, more_to_come: bool = False
) -> Reported:
    """Dissect the captures, with the course of events over `grid` if there is one; raise NothingToReport if no Kafka is there.

    Spark is let go as soon as it has given its figures, before they are added up, unless there is `more_to_come`.
    """
    from kdissect.report.render import terminal  # noqa: F401 - loaded here, while Spark is still starting
    from kdissect.spark import jobs
    from kdissect.spark.capture_facts import capture_facts
    from kdissect.spark.progress import Progress

    spark = ready.engine.context()

    with Progress(spark, chosen.quiet):
        blobs = jobs.figures(spark, ready.work, grid)
    if not more_to_come:
        ready.engine.rest()
    analysis = jobs.added_up(blobs)
    facts = facts_told(ready, capture_facts(ready.survey, analysis.counts))
    found = Reported(analysis.partial, facts, filters_told(chosen, ready))
    if why := _nothing(ready, analysis, found.filters):
        raise NothingToReport(why)
    return found


def _nothing(ready: Ready, analysis: "Analysis", filters: "tuple[AppliedFilter, ...]") -> str:
    from kdissect.report.aggregate.partial_tables import CONNECTION_FACTS
    from kdissect.report.query.connection_facts import connection_totals, read_connection_facts

    seen = connection_totals(read_connection_facts(analysis.partial.part(CONNECTION_FACTS)))
    kafka = sum(row.connections for row in seen.protocols if row.protocol.startswith("kafka"))
    encrypted = sum(row.connections for row in seen.protocols if row.protocol == "tls")
    why = nothing_found(ready.survey, analysis.counts, seen.count, kafka, ready.work.ports, encrypted)
    if why and filters and analysis.counts.tcp:
        return "nothing in these captures passes the filters"
    return why


def facts_told(ready: Ready, facts: "CaptureFacts") -> "CaptureFacts":
    """Give the facts of the capture under the names that may be told."""
    if ready.pseudonyms is None:
        return facts
    warnings = ready.pseudonyms.texts(facts.warnings, facts.files)
    files = tuple(ready.pseudonyms.name("capture", file) or "" for file in facts.files)
    return replace(facts, files=files, warnings=warnings)


def filters_told(chosen: argparse.Namespace, ready: Ready) -> "tuple[AppliedFilter, ...]":
    """Say what narrowed the report, under the names that may be told."""
    from kdissect.report.model.summary import AppliedFilter

    hidden = ready.pseudonyms
    return tuple(
        AppliedFilter(
            option=option, values=tuple(hidden.asked(option, value) if hidden else value for value in values)
        )
        for option, values in told(chosen)
    )
