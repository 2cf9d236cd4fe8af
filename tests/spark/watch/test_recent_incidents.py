"""Incidents go on from batch to batch and from process to process, in a window that is bounded."""

from pathlib import Path

import pytest

from kdissect.report.build.recent_report import WINDOW_NS
from kdissect.report.partials import EMPTY, Partial, to_arrow
from kdissect.spark.arrow_ipc import to_blob
from kdissect.spark.watch.recent_incidents import BatchSpan, RecentIncidents
from tests.helpers.batch_partials import batch_partials, incident_index

BATCHES = 6


def blobs(partial: Partial) -> list[bytes]:
    return [to_blob(to_arrow(partial))]


@pytest.mark.slow
def test_an_incident_is_opened_once_whichever_process_sees_it(tmp_path: Path) -> None:
    index = incident_index("broker-frozen-1", tmp_path, BATCHES)
    grid = RecentIncidents(tmp_path / "none").grid(index.earliest_time_ns)
    folder, state, changes = tmp_path / "partials", None, []
    for number, batch in enumerate(batch_partials(index, BATCHES, grid)):
        incidents = RecentIncidents(folder, state)
        assert incidents.grid(index.earliest_time_ns) == grid
        span = BatchSpan(number, batch.first_ns, batch.last_ns, batch.packets)
        changes += incidents.add(span, blobs(batch.finished), blobs(batch.unfinished))
        assert incidents.summary is not None
        state = incidents.state()
    opened = [one.incident.cause for one in changes if one.change == "opened"]
    assert opened.count("broker_frozen") == 1
    assert "broker_frozen" in {one.cause for one in incidents.summary.incidents}
    assert len(list(folder.iterdir())) == BATCHES
    # A batch without packets changes nothing but the time, which it has from the one before.
    assert not [
        one
        for one in RecentIncidents(folder, state).add(
            BatchSpan(BATCHES, 0, 0, 0), blobs(EMPTY), blobs(batch.unfinished)
        )
        if one.change == "opened"
    ]


def test_what_is_behind_the_window_goes(tmp_path: Path) -> None:
    folder = tmp_path / "partials"
    incidents = RecentIncidents(folder)
    start = 10**18
    incidents.grid(start)
    for number in range(4):
        last_ns = start + number * WINDOW_NS // 2
        incidents.add(BatchSpan(number, last_ns - 1, last_ns, 5), blobs(EMPTY), [])
        incidents.clean()
    assert sorted(path.name for path in folder.iterdir()) == ["00000002.arrow", "00000003.arrow"]
    assert [span[0] for span in incidents.state()["spans"]] == [2, 3]


def test_files_of_no_committed_batch_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "partials"
    incidents = RecentIncidents(folder)
    incidents.grid(10**18)
    incidents.add(BatchSpan(0, 10**18, 10**18 + 1, 5), blobs(EMPTY), [])
    RecentIncidents(folder, None).clean()
    assert not list(folder.iterdir())
