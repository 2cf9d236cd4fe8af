"""Partials on another grid: steps that become one add up."""

import pyarrow as pa

from kdissect.report.build.regrid import StepGrids, regrid, without_page
from kdissect.report.partials import Partial
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import SIGNAL_GRID, WAITS
from kdissect.report.timeline.timeline_tables import FAILURES

FINE = StepGrids(Grid(1000, 10, 1 << 30), Grid(1000, 10, 1 << 30))
COARSE = StepGrids(Grid(1000, 10, 4), Grid(900, 100, 2))


def rows_of(schema: pa.Schema, rows: list[dict[str, int]]) -> pa.Table:
    return pa.table({field.name: [row.get(field.name) for row in rows] for field in schema}, schema=schema)


def test_steps_are_moved_and_added_up() -> None:
    failures = [{"step": step, "code": 3, "exchanges": 1} for step in (0, 1, 15)]
    waits = [{"begin_step": 2, "exchanges": 1}, {"begin_step": 3, "end_step": 9, "exchanges": 1}]
    grid = [{**FINE.signals._asdict(), "exchanges": 5}]
    partial = Partial(
        {
            FAILURES.name: rows_of(FAILURES.schema, failures),
            WAITS.name: rows_of(WAITS.schema, waits),
            SIGNAL_GRID.name: rows_of(SIGNAL_GRID.schema, grid),
        }
    )
    moved = regrid(partial, FINE, COARSE)
    failed = moved.table(FAILURES).select(["step", "exchanges"]).sort_by("step").to_pylist()
    assert failed == [{"step": 1, "exchanges": 3}]
    assert moved.table(WAITS)["begin_step"].to_pylist() == [2, 3]
    assert moved.table(WAITS)["end_step"].to_pylist() == [None, 3]
    assert moved.table(SIGNAL_GRID)["steps"].to_pylist() == [4]
    assert without_page(moved).tables.keys() == {WAITS.name, SIGNAL_GRID.name}
