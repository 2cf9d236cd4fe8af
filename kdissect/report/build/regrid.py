"""Partials on another grid of time: their steps are moved, and added up where the new steps are longer.

In comes a partial with the grids that its tables were counted on, out goes the same partial on other grids.
It is exact if the length and the begin of a new step are multiples of the old one, as those of
`grid.LENGTHS_NS` are for the grids of a watch. Values outside are counted in the first or the last step.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.partial_rows import roll_up
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.partials import ALL_TABLES, Partial
from kdissect.report.timeline.count_examples import EXAMPLE_TABLES
from kdissect.report.timeline.count_side_tables import EVENTS
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import SIGNAL_GRID, SIGNAL_TABLES
from kdissect.report.timeline.timeline_tables import TIMELINE_TABLES

STEP_COLUMNS = ("step", "begin_step", "end_step", "by_step")
PAGE_ONLY = (TIMELINE_TABLES.keys() | EXAMPLE_TABLES.keys()) - {part.name for part in EVENTS.values()}
"""The tables that only a page needs."""


class StepGrids(NamedTuple):
    """The grids of a partial: that of the tables of signals, and that of the tables of a page."""

    signals: Grid
    page: Grid


def regrid(partial: Partial, before: StepGrids, after: StepGrids) -> Partial:
    """Return a partial that was counted on the grids `before` on the grids `after`."""
    tables = dict(partial.tables)
    for names, old, new in (
        (SIGNAL_TABLES.keys(), before.signals, after.signals),
        (PAGE_ONLY, before.page, after.page),
    ):
        for name in names & tables.keys():
            moved = _moved(name, partial.table(ALL_TABLES[name]), old, new)
            if new.step_ns != old.step_ns:  # steps have become equal
                moved = limit_rows(ALL_TABLES[name], roll_up(ALL_TABLES[name], moved))
            tables[name] = moved
    return Partial(tables)


def without_page(partial: Partial) -> Partial:
    """Return a partial without the tables that only a page needs."""
    return Partial({name: rows for name, rows in partial.tables.items() if name not in PAGE_ONLY})


def _moved(name: str, table: pa.Table, old: Grid, new: Grid) -> pa.Table:
    for column in STEP_COLUMNS:
        if column in table.column_names:
            table = _replaced(table, column, _moved_steps(table[column], old, new))
    if name == SIGNAL_GRID.name:
        for column, value in new._asdict().items():
            table = _replaced(table, column, pa.array([value] * table.num_rows, pa.int64()))
    return table


def _moved_steps(steps: pa.ChunkedArray, old: Grid, new: Grid) -> pa.Array:
    known = steps.is_valid().to_numpy()
    begin_ns = old.start_ns + steps.fill_null(0).to_numpy().astype(np.int64) * old.step_ns
    return pa.array(new.steps_of(begin_ns), mask=~known).cast(steps.type)


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(name), values)
