"""The report on batches in a window is that of one analysis of them."""

from pathlib import Path

import pytest

from kdissect.capture.index.index import CaptureIndex
from kdissect.report.build.build_report import build_report
from kdissect.report.build.recent_report import STEP_NS, recent_report
from kdissect.report.model.summary import CaptureFacts, Summary
from kdissect.report.timeline.grid import Grid
from kdissect.tables.build import dissect_batches
from tests.helpers.batch_partials import SUMMED, batch_partials, grid_before, incident_index, summed
from tests.helpers.in_batches import pieces_of


def span(index: CaptureIndex) -> tuple[int, int]:
    return index.earliest_time_ns or 0, index.latest_time_ns or 0


def at_once(index: CaptureIndex) -> Summary:
    """Return the report on a capture in one go."""
    first, last = span(index)
    origin = grid_before(index)
    begin, end = (first - origin.start_ns) // STEP_NS, (last - origin.start_ns) // STEP_NS
    grid = Grid(origin.start_ns + begin * STEP_NS, STEP_NS, end - begin + 1)
    tables = dissect_batches(pieces_of(index.splits), index.splits, wanted=SUMMED)
    facts = CaptureFacts(packets=index.packets, first_time_ns=first, last_time_ns=last)
    return build_report(summed(tables, grid), facts)


def after_each_batch(index: CaptureIndex, batches: int) -> list[Summary]:
    grid = grid_before(index)
    found, finished = [], []
    for batch in batch_partials(index, batches, grid):
        finished.append(batch.finished)
        found.append(recent_report([*finished, batch.unfinished], grid, *span(index), index.packets))
    return found


@pytest.mark.parametrize("name", ["broker-frozen-1", "rebalance-loop-1", "idle-connection-dropped-1"])
def test_the_last_report_is_that_of_one_analysis(name: str, tmp_path: Path) -> None:
    index = incident_index(name, tmp_path, 5)
    expected, found = at_once(index), after_each_batch(index, 5)[-1]
    assert expected.incidents
    assert found.incidents == expected.incidents
    assert found.signals == expected.signals
    assert found.totals == expected.totals


def test_a_frozen_broker_is_named_before_it_answers(tmp_path: Path) -> None:
    found = after_each_batch(incident_index("broker-frozen-1", tmp_path, 12), 12)
    causes = [[incident.cause for incident in report.incidents] for report in found]
    assert not any("broker_frozen" in names for names in causes[:2])
    assert any("broker_frozen" in names for names in causes[2:-1])
