"""The report on the last minutes of captures that go on, from partials of their batches.

Tasks of every batch count signals on one endless grid, so their partials add up. A report needs a grid of its
span: `recent_report` moves the steps of all partials to a grid that begins where the window does. What began
before the window is counted in its first step. The result is the report of one analysis of these batches on
that grid.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from kdissect.report.build.report import build_report
from kdissect.report.model.summary import CaptureFacts, Summary
from kdissect.report.partials import Partial, merge
from kdissect.report.timeline.count_events import EVENTS
from kdissect.report.timeline.grid import MS, SIGNAL_STEPS, Grid
from kdissect.report.timeline.signal_tables import SIGNAL_GRID, SIGNAL_TABLES

STEP_NS = 500 * MS
WINDOW_NS = SIGNAL_STEPS * STEP_NS
"""The window: ten minutes."""

MOST_STEPS = (1 << 31) - 1
STEPPED = SIGNAL_TABLES.keys() | {part.name for part in EVENTS.values()}
STEP_COLUMNS = ("step", "begin_step", "end_step")


def endless_grid(first_ns: int) -> Grid:
    """Return the grid on which all batches of a watch are counted; its first packet has a time."""
    return Grid(first_ns // STEP_NS * STEP_NS, STEP_NS, MOST_STEPS)


def recent_report(
    partials: Iterable[Partial], grid: Grid, first_ns: int, last_ns: int, packets: int
) -> Summary:
    """Return the report on batches from `first_ns` to `last_ns`, whose partials were counted on `grid`."""
    begin, end = grid.steps_of(np.array([first_ns, last_ns])).tolist()
    end = max(begin, end)
    window = Grid(grid.start_ns + begin * grid.step_ns, grid.step_ns, end - begin + 1)
    # With an empty partial even a single one is rolled up, since steps that were moved may have become equal.
    moved = [_moved(partial, begin, window) for partial in partials]
    facts = CaptureFacts(packets=packets, first_time_ns=first_ns, last_time_ns=last_ns)
    return build_report(merge(moved), facts)


def _moved(partial: Partial, begin: int, window: Grid) -> Partial:
    """Return a partial whose steps count from the begin of a window."""
    tables = dict(partial.tables)
    for name in STEPPED & tables.keys():
        table = tables[name]
        for column in STEP_COLUMNS:
            if column in table.column_names:
                table = _replaced(table, column, _moved_steps(table[column], begin, window.steps))
        if name == SIGNAL_GRID.name:
            for column, value in window._asdict().items():
                table = _replaced(table, column, pa.array([value] * table.num_rows, pa.int64()))
        tables[name] = table
    return Partial(tables)


def _moved_steps(steps: pa.ChunkedArray, begin: int, count: int) -> pa.Array:
    known = steps.is_valid().to_numpy()
    moved = np.clip(steps.fill_null(0).to_numpy().astype(np.int64) - begin, 0, count - 1)
    return pa.array(moved, mask=~known).cast(steps.type)


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(name), values)
