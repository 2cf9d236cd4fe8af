"""Figures of a watch with one table, and its header."""

import pyarrow as pa

from kdissect.report.build.regrid import StepGrids
from kdissect.report.model.summary import AppliedFilter, CaptureFacts, CaptureGap
from kdissect.report.partials import Partial
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import ACTIVITY
from kdissect.spark.watch.figure_files import FigureHeader

STEP_NS = 5_000_000_000
GRIDS = StepGrids(Grid(0, STEP_NS // 10, 1 << 30), Grid(0, STEP_NS, 1 << 30))


def activity(time_ns: int, exchanges: int) -> Partial:
    """Return a partial with some exchanges in one step of the page."""
    values = {"step": time_ns // STEP_NS, "api_key": 1, "exchanges": exchanges}
    columns = {field.name: [values.get(field.name)] for field in ACTIVITY.schema}
    return Partial({ACTIVITY.name: pa.table(columns, schema=ACTIVITY.schema)})


def header(batch: int, last_ns: int) -> FigureHeader:
    gap = CaptureGap(begin_ns=last_ns, end_ns=last_ns + 1, packets=3)
    facts = CaptureFacts(
        gaps=(gap,), files=(f"{batch}.pcap",), packets=10, first_time_ns=last_ns, last_time_ns=last_ns
    )
    filters = (AppliedFilter(option="--api", values=("fetch",)),)
    return FigureHeader(batch, batch, last_ns, last_ns, GRIDS, facts, filters)
