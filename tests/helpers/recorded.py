"""Recorded captures, dissected here without Spark: their tables, and the page about them."""

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from kdissect.capture.index.index import CaptureIndex, index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.segment_index import Counts
from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.model.summary import Summary
from kdissect.report.partials import (
    Partial,
    merge,
    summarise,
)
from kdissect.report.render.html.page import render_page
from kdissect.report.timeline.count import SOURCE_TABLES
from kdissect.report.timeline.count_signals import SIGNAL_SOURCES
from kdissect.report.timeline.grid import SIGNAL_STEPS, Grid, grid_over
from kdissect.spark import tasks
from kdissect.spark.capture_facts import capture_facts
from kdissect.tables.build import dissect_batches
from kdissect.tables.filters import TCP_TABLES

CAPTURES = Path(__file__).parents[2] / "captures"


@cache
def dissected(name: str) -> tuple[CaptureIndex, list[dict[str, pa.RecordBatch]]]:
    """Return the survey of a capture and the batches of its tables."""
    seen = index_captures(open_inputs([str(CAPTURES / name)], "").files, 1 << 30)
    ordinals = [pa.record_batch({"split": [split.index]}) for split in seen.splits]
    pieces = list(tasks.scan_step(ordinals, seen.splits, ()))
    wanted = (*SOURCE_TABLES, *SIGNAL_SOURCES, *TCP_TABLES)
    return seen, [dict(batch) for batch in dissect_batches(pieces, seen.splits, wanted=wanted)]


def rows(name: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of a capture."""
    return [row for batch in dissected(name)[1] if table in batch for row in batch[table].to_pylist()]


@cache
def analyzed(name: str) -> tuple[Summary, Partial, Grid]:
    """Return what the page about a capture is made of."""
    seen, batches = dissected(name)
    grid = grid_over(seen.earliest_time_ns, seen.latest_time_ns)
    steps = grid_over(seen.earliest_time_ns, seen.latest_time_ns, SIGNAL_STEPS)
    partial = merge(summarise(batch, grid, steps) for batch in batches)
    return build_report(partial, capture_facts(seen, Counts(packets=seen.packets))), partial, grid


@cache
def data(name: str) -> dict[str, Any]:
    """Return the data of the page about a capture."""
    return make_page_data(*analyzed(name))


@cache
def page(name: str) -> str:
    """Return the page about a capture."""
    return render_page(make_page_data(*analyzed(name)))
