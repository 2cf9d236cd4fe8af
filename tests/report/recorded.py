"""Recorded captures, dissected here without Spark: their tables, and the page about them."""

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from kdissect.capture.files import open_inputs
from kdissect.capture.pieces import Counts
from kdissect.capture.survey import Survey, survey
from kdissect.exchange.dissect import dissect_batches
from kdissect.pipeline import steps
from kdissect.pipeline.facts import capture_facts
from kdissect.report.compose import compose
from kdissect.report.course.count import WANTED
from kdissect.report.course.grid import Grid, grid_over
from kdissect.report.html.document import document
from kdissect.report.html.page import render_page
from kdissect.report.partials import Partial, merge, summarise
from kdissect.report.summary import Summary

CAPTURES = Path(__file__).parents[2] / "captures"


@cache
def dissected(name: str) -> tuple[Survey, list[dict[str, pa.RecordBatch]]]:
    """Give the survey of a capture and the batches of its tables."""
    seen = survey(open_inputs([str(CAPTURES / name)], "").files, 1 << 30)
    ordinals = [pa.record_batch({"split": [split.index]}) for split in seen.splits]
    pieces = list(steps.scan_step(ordinals, seen.splits, ()))
    return seen, [dict(batch) for batch in dissect_batches(pieces, seen.splits, wanted=WANTED)]


def rows(name: str, table: str) -> list[dict[str, Any]]:
    """Give the rows of a table of a capture."""
    return [row for batch in dissected(name)[1] if table in batch for row in batch[table].to_pylist()]


@cache
def analyzed(name: str) -> tuple[Summary, Partial, Grid]:
    """Give what the page about a capture is made of."""
    seen, batches = dissected(name)
    grid = grid_over(seen.earliest_time_ns, seen.latest_time_ns)
    partial = merge(summarise(batch, grid) for batch in batches)
    return compose(partial, capture_facts(seen, Counts(packets=seen.packets))), partial, grid


@cache
def data(name: str) -> dict[str, Any]:
    """Give the data of the page about a capture."""
    return document(*analyzed(name))


@cache
def page(name: str) -> str:
    """Give the page about a capture."""
    return render_page(*analyzed(name))
