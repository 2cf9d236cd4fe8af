"""`slice --incident N`: the connections and the time of an incident, from a report made in this process.

In come indexed captures, out goes what the N-th incident of their report is about. The figures are those of
`analyze`, summed here without Spark: merged figures do not depend on how captures were cut.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kdissect.errors import UsageError

if TYPE_CHECKING:
    from kdissect.capture.index.index import CaptureIndex
    from kdissect.report.build.incident_connections import IncidentConnections
    from kdissect.streams.tls.keylog import KeyLog


class IncidentChoice(NamedTuple):
    """An incident of a report: its first line, and what it is about."""

    headline: str
    about: "IncidentConnections"


def choose_incident(
    number: int, found: "CaptureIndex", ports: Iterable[int], keys: "KeyLog"
) -> IncidentChoice:
    """Return the incident with a number, from 1 in the order of the report. Raise UsageError."""
    import numpy as np
    import pyarrow as pa

    from kdissect.report.build.build_report import build_report
    from kdissect.report.build.incident_connections import incident_connections
    from kdissect.report.partials import from_arrow
    from kdissect.report.timeline.grid import SIGNAL_STEPS, grid_over
    from kdissect.spark import tasks
    from kdissect.spark.capture_facts import capture_facts
    from kdissect.spark.figures_step import summary_step
    from kdissect.spark.task_tables import TableOptions

    grid = grid_over(found.earliest_time_ns or 0, found.latest_time_ns or 0, SIGNAL_STEPS)
    ordinals = (pa.record_batch({"split": [split.index]}) for split in found.splits)
    pieces = tasks.scan_step(ordinals, found.splits, tuple(ports))
    treatment = TableOptions(keys=keys)
    with np.errstate(over="ignore"):  # hashes overflow by design; only uncompiled kernels mention it
        batches = list(summary_step(pieces, found.splits, treatment, steps=grid))
    partial = from_arrow(tasks.partials_only(batches))
    summary = build_report(partial, capture_facts(found, tasks.sum_counts(batches)))
    if number > len(summary.incidents):
        count = len(summary.incidents)
        have = "has no incident" if not count else f"has {count} incident{'' if count == 1 else 's'}"
        raise UsageError(f"there is no incident {number}: the report of these captures {have}")
    incident = summary.incidents[number - 1]
    return IncidentChoice(incident.headline, incident_connections(incident, summary, partial))
