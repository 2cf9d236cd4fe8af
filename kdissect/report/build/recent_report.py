"""The report on the last minutes of captures that go on, from partials of their batches.

Tasks of every batch count signals on one endless grid, so their partials add up. A report needs a grid of its
span: `recent_report` moves the steps of all partials to a grid that begins where the window does. Counts
from before the window go to its first step. The result is the report of one analysis of these batches on
that grid.
"""

from collections.abc import Iterable

import numpy as np

from kdissect.report.build.build_report import build_report
from kdissect.report.build.regrid import StepGrids, regrid
from kdissect.report.model.summary import CaptureFacts, CaptureGap, Summary
from kdissect.report.partials import Partial, merge
from kdissect.report.timeline.grid import MS, SIGNAL_STEPS, Grid

STEP_NS = 500 * MS
WINDOW_NS = SIGNAL_STEPS * STEP_NS
"""The window: ten minutes."""

MOST_STEPS = (1 << 31) - 1
PAGE_STEP_NS = 5000 * MS
"""The steps of a page on the last hour or day: of this length at least."""


def endless_grid(first_ns: int) -> Grid:
    """Return the grid on which all batches of a watch are counted; its first packet has a time."""
    return Grid(first_ns // STEP_NS * STEP_NS, STEP_NS, MOST_STEPS)


def endless_page_grid(first_ns: int) -> Grid:
    """Return the grid on which all batches of a watch count for pages."""
    return Grid(first_ns // PAGE_STEP_NS * PAGE_STEP_NS, PAGE_STEP_NS, MOST_STEPS)


def recent_report(
    partials: Iterable[Partial],
    grid: Grid,
    first_ns: int,
    last_ns: int,
    packets: int,
    gaps: tuple[CaptureGap, ...] = (),
) -> Summary:
    """Return the report on batches from `first_ns` to `last_ns`, whose partials were counted on `grid`."""
    begin, end = grid.steps_of(np.array([first_ns, last_ns])).tolist()
    end = max(begin, end)
    window = Grid(grid.start_ns + begin * grid.step_ns, grid.step_ns, end - begin + 1)
    before, after = StepGrids(grid, grid), StepGrids(window, grid)
    # With an empty partial even a single one is rolled up, since steps that were moved may have become equal.
    moved = [regrid(partial, before, after) for partial in partials]
    facts = CaptureFacts(
        packets=packets,
        first_time_ns=first_ns,
        last_time_ns=last_ns,
        dropped_packets=sum(gap.packets for gap in gaps),
        gaps=gaps,
    )
    return build_report(merge(moved), facts)
