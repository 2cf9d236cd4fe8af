"""From indexed captures to the `Summary` of a report, with names replaced if the user wants it."""

import argparse
from collections.abc import Callable, Collection
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from kdissect.cli.context import (
    AnalysisRun,
    NothingToReportError,
    reading_job,
    reason_for_no_report,
)
from kdissect.cli.filter_options import given_filters
from kdissect.cli.options import REPORT_TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from kdissect.report.model.summary import AppliedFilter, CaptureFacts, ProfileBy, Summary
    from kdissect.report.partials import Partial
    from kdissect.report.timeline.grid import Grid
    from kdissect.spark.jobs import Analysis


LOOPS_LOADED_FROM = 20_000
"""Connections from which on compiled loops add up figures, and are loaded while workers dissect."""


class ReportInput(NamedTuple):
    """Everything that a report is built from.

    The merged figures, the facts of the capture, and the filters that were set.
    """

    partial: "Partial"
    facts: "CaptureFacts"
    filters: "tuple[AppliedFilter, ...]"

    def summary(self, by: "ProfileBy | None" = None) -> "Summary":
        """Return the report; its profile ranks by API unless `by` says otherwise."""
        from kdissect.report.build.build_report import build_report
        from kdissect.report.model.summary import ProfileBy

        return build_report(self.partial, self.facts, by=by or ProfileBy.API, filters=self.filters)


def report_input(
    run: AnalysisRun,
    arguments: argparse.Namespace,
    grid: "Grid | None" = None,
    steps: "Grid | None" = None,
    more_to_come: bool = False,
) -> ReportInput:
    """Return what a report is built from.

    With a `grid`, figures by steps of time are part of it. With `steps`, so are signals and incidents.
    Spark ends as soon as it has returned its figures, before they are added up, unless there is
    `more_to_come`. Raise NothingToReportError if the captures hold no Kafka traffic.
    """
    # Loaded here, while Spark is still starting: the report is composed when nothing else is left to do.
    from kdissect.report.build import build_report  # noqa: F401
    from kdissect.report.render import report_text  # noqa: F401
    from kdissect.spark import jobs
    from kdissect.spark.capture_facts import capture_facts

    work = run.work.with_guess()  # while Spark is still starting
    _load_loops_beside(work.sample.connections)
    with reading_job(run, arguments.quiet) as spark:
        blobs = jobs.figures(spark, work, grid, steps)
    if not more_to_come:
        run.engine.rest()
    analysis = jobs.merge_figures(blobs)
    facts = anonymized_facts(run, capture_facts(run.index, analysis.counts))
    result = ReportInput(analysis.partial, facts, filters_shown(arguments, run))
    if why := _nothing(run, analysis, result.filters):
        raise NothingToReportError(why)
    return result


def _load_loops_beside(connections: int) -> None:
    """Load the loops that add up the figures of many connections, in a thread while workers dissect.

    They took 0.2 s afterwards, when nothing else was left to do.
    """
    from kdissect.jit.rows import COMPILED
    from kdissect.report.aggregate import group_loops

    if COMPILED and connections >= LOOPS_LOADED_FROM:
        Thread(target=group_loops.call_all, name="load loops", daemon=True).start()


def report_frames(
    run: AnalysisRun,
    arguments: argparse.Namespace,
    session: Any,
    wanted: Collection[str],
    finish: "Callable[[pa.RecordBatch], pa.RecordBatch] | None" = None,
) -> dict[str, Any]:
    """Return the tables `signals` and `incidents` as DataFrames, as far as they are `wanted`.

    `finish` is applied to each batch. Raise NothingToReportError if the captures hold no Kafka traffic.
    """
    if not any(name in REPORT_TABLES for name in wanted):
        return {}
    from pyarrow import Table

    from kdissect.report.build.incident_tables import incident_tables

    summary = report_input(run, arguments, steps=signal_grid(run), more_to_come=True).summary()
    frames = {}
    for name, table in incident_tables(summary).items():
        if name in wanted:
            batches = [finish(batch) if finish else batch for batch in table.to_batches()]
            frames[name] = session.createDataFrame(Table.from_batches(batches, table.schema))
    return frames


def _nothing(run: AnalysisRun, analysis: "Analysis", filters: "tuple[AppliedFilter, ...]") -> str:
    from kdissect.report.query.connection_facts import KAFKA, read_connection_facts

    seen = read_connection_facts(analysis.partial).columns
    kafka, encrypted = (
        sum(int(seen.equals("protocol", name).sum()) for name in names) for names in (KAFKA, ("tls",))
    )
    why = reason_for_no_report(run.index, analysis.counts, seen.rows, kafka, run.work.ports, encrypted)
    if why and filters and analysis.counts.tcp:
        return "no exchange in these captures matches the filters"
    return why


def anonymized_facts(run: AnalysisRun, facts: "CaptureFacts") -> "CaptureFacts":
    """Return the facts of the capture, with names replaced if the user wants it, and how far it was read."""
    if run.interruption:
        facts = replace(facts, warnings=(run.interruption, *facts.warnings))
    if run.pseudonyms is None:
        return facts
    warnings = run.pseudonyms.texts(facts.warnings, facts.files)
    files = tuple(run.pseudonyms.name("capture", file) or "" for file in facts.files)
    return replace(facts, files=files, warnings=warnings)


def filters_shown(arguments: argparse.Namespace, run: AnalysisRun) -> "tuple[AppliedFilter, ...]":
    """Return the filters of the report, with names replaced if the user wants it."""
    from kdissect.report.model.summary import AppliedFilter

    hidden = run.pseudonyms
    return tuple(
        AppliedFilter(
            option=option,
            values=tuple(hidden.filter_value(option, value) if hidden else value for value in values),
        )
        for option, values in given_filters(arguments)
    )


def time_grid(run: AnalysisRun) -> "Grid":
    """Return the time steps of the page."""
    from kdissect.report.timeline.grid import grid_over

    return grid_over(*_span(run))


def signal_grid(run: AnalysisRun) -> "Grid":
    """Return the time steps that signals are found on, which are finer than those of the page."""
    from kdissect.report.timeline.grid import SIGNAL_STEPS, grid_over

    return grid_over(*_span(run), SIGNAL_STEPS)


def _span(run: AnalysisRun) -> tuple[int, int]:
    """Return the span of the captures, or of --since and --until within it, in ns since the epoch."""
    found, selected = run.index, run.work.treatment.filter
    first, last = found.earliest_time_ns or 0, found.latest_time_ns or 0
    if selected.since_ns is not None:
        first = min(max(first, selected.since_ns), last)
    if selected.until_ns is not None:
        last = max(min(last, selected.until_ns - 1), first)
    return first, last
