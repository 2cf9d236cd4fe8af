"""From captures that were looked over to a `Summary`, under the names that may be told."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kdissect.cli.filters import told
from kdissect.cli.work import NothingToReport, Ready, nothing_found

if TYPE_CHECKING:
    from kdissect.pipeline.jobs import Analysis
    from kdissect.report.course.grid import Grid
    from kdissect.report.partials import Partial
    from kdissect.report.summary import By, CaptureFacts, Filter, Summary


class Reported(NamedTuple):
    """What a report rests on, to be composed."""

    partial: "Partial"
    facts: "CaptureFacts"
    filters: "tuple[Filter, ...]"

    def summary(self, by: "By | None" = None) -> "Summary":
        """Give the report, its profile ranked by API if nothing else is asked for."""
        from kdissect.report.compose import compose
        from kdissect.report.summary import By

        return compose(self.partial, self.facts, by=by or By.API, filters=self.filters)


def reported(
    ready: Ready, chosen: argparse.Namespace, grid: "Grid | None" = None, more_to_come: bool = False
) -> Reported:
    """Dissect the captures, with the course of events over `grid` if there is one; raise NothingToReport if no Kafka is there.

    Spark is let go as soon as it has given its figures, before they are added up, unless there is `more_to_come`.
    """
    from kdissect.pipeline import jobs
    from kdissect.pipeline.facts import capture_facts
    from kdissect.pipeline.progress import Progress
    from kdissect.report import compose, text  # noqa: F401 - loaded here, while Spark is still starting

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


def _nothing(ready: Ready, analysis: "Analysis", filters: "tuple[Filter, ...]") -> str:
    from kdissect.report.facts import connections, facts_of
    from kdissect.report.parts import FACTS

    seen = connections(facts_of(analysis.partial.part(FACTS)))
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


def filters_told(chosen: argparse.Namespace, ready: Ready) -> "tuple[Filter, ...]":
    """Say what narrowed the report, under the names that may be told."""
    from kdissect.report.summary import Filter

    hidden = ready.pseudonyms
    return tuple(
        Filter(
            option=option, values=tuple(hidden.asked(option, value) if hidden else value for value in values)
        )
        for option, values in told(chosen)
    )
