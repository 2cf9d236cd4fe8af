"""Figures of one task: the same with a process beside it, for all kinds of connections and filters."""

from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.partials import Partial, from_arrow, merge
from kdissect.report.timeline.grid import MAX_STEPS, SIGNAL_STEPS, Grid, grid_over
from kdissect.report.timeline.signal_tables import SIGNAL_TABLES
from kdissect.spark import consumer_process, figures_step, tasks
from kdissect.spark.figures_step import summary_step
from kdissect.spark.task_tables import TableOptions
from kdissect.streams.tls.keylog import keys_for
from kdissect.tables import message_columns
from kdissect.tables.anonymize import Pseudonyms
from kdissect.tables.filters import Filter
from tests.helpers.in_batches import pieces_of
from tests.helpers.paper_capture import MS
from tests.helpers.recorded import CAPTURES
from tests.helpers.report_rows import PRODUCE, exchange_of, tables
from tests.helpers.tiers import spread

EVERY = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
FILTERS = {
    "api": Filter(apis=frozenset({1, 3})),
    "client": Filter(clients=("*-aio",)),
    "broker": Filter(brokers=("1", "127.*")),
    "error": Filter(errors=frozenset({None, 27})),
}


def figures(
    path: Path, treatment: TableOptions, known: tasks.KnownRows | None = None, *, beside: bool
) -> dict[str, list[str]]:
    """Return all figures of a capture, and the counts of pass one."""
    seen = index_captures(open_inputs([str(path)], "").files, 1 << 16, range_bytes=1 << 16)
    page, steps = (
        grid_over(seen.earliest_time_ns, seen.latest_time_ns, most) for most in (MAX_STEPS, SIGNAL_STEPS)
    )
    batches = list(summary_step(pieces_of(seen.splits), seen.splits, treatment, page, steps, known, beside))
    total = from_arrow(tasks.partials_only(batches))
    found = {part: sorted(map(repr, rows.to_pylist())) for part, rows in total.tables.items()}
    assert found["calls"] or not treatment.filter.selects_everything
    return found | {"counts": [repr(tasks.sum_counts(batches))]}


def overwritten(pipe: Connection, places: list[memoryview]) -> Iterator[tuple[Any, Any]]:
    """Yield items as the process does, and overwrite what was lent when the next one is asked for."""
    while (told := pipe.recv()) is not None:
        assert told.place >= 0
        yield told.value(places[told.place]), told.given
        places[told.place][:] = b"\xa5" * len(places[told.place])
        pipe.send(None)


@pytest.mark.parametrize("name", spread(EVERY, 6))
def test_a_process_beside_counts_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures_step, "HANDED_OVER", 20_000)
    monkeypatch.setattr(consumer_process, "PLACE_BYTES", 1 << 20)
    monkeypatch.setattr(consumer_process, "_items", overwritten)
    path = CAPTURES / name
    files = index_captures(open_inputs([str(path)], "").files).files
    treatment = TableOptions(keys=keys_for(None, files))
    assert figures(path, treatment, beside=True) == figures(path, treatment, beside=False)


def test_a_batch_with_very_many_partitions_is_handed_over_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_columns, "MOST_ROWS", 40)
    path, treatment = CAPTURES / "broker-restart.pcapng", TableOptions()
    assert figures(path, treatment, beside=True) == figures(path, treatment, beside=False)


@pytest.mark.parametrize("name", FILTERS)
def test_it_filters_the_same(name: str) -> None:
    path, treatment = CAPTURES / "broker-restart.pcapng", TableOptions(FILTERS[name])
    found = figures(path, treatment, beside=True)
    assert found["connections"]
    assert found == figures(path, treatment, beside=False)


def test_it_learns_the_same_names_and_addresses() -> None:
    path, learnt = CAPTURES / "broker-restart.pcapng", []
    for beside in (True, False):
        known = tasks.KnownRows()
        figures(path, TableOptions(), known, beside=beside)
        learnt.append(tasks.collect_known(known.distinct()))
    assert learnt[0] == learnt[1]
    assert learnt[0].topics
    assert learnt[0].nodes


def test_names_are_replaced_there_too() -> None:
    path, treatment = CAPTURES / "pause.pcapng", TableOptions(pseudonyms=Pseudonyms.new())
    assert figures(path, treatment, beside=True) == figures(path, treatment, beside=False)


def test_signals_are_the_same_with_the_figures_of_a_page_and_without() -> None:
    """A report with a page names leaders that moved, too."""
    seen = index_captures(open_inputs([str(CAPTURES / "broker-restart.pcapng")], "").files)
    pieces = pieces_of(seen.splits)
    page, steps = (
        grid_over(seen.earliest_time_ns, seen.latest_time_ns, most) for most in (MAX_STEPS, SIGNAL_STEPS)
    )

    def signal_tables(grid: Grid | None) -> dict[str, list[str]]:
        figures, _ = summary_step(pieces, seen.splits, grid=grid, steps=steps)
        total = from_arrow([figures])
        return {
            name: sorted(map(repr, total.table(part).to_pylist())) for name, part in SIGNAL_TABLES.items()
        }

    with_page = signal_tables(page)
    assert with_page == signal_tables(None)
    assert with_page["replica_states"]


@pytest.mark.parametrize(("few", "merges"), [(0, 4), (1 << 20, 1)])
def test_small_partials_are_merged_more_at_a_time(
    few: int, merges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[Partial] = []

    def noted(partials: Iterable[Partial]) -> Partial:
        merged.append(merge(partials))
        return merged[-1]

    monkeypatch.setattr(figures_step, "FEW_ROWS", few)
    monkeypatch.setattr(figures_step, "merge", noted)
    monkeypatch.setattr(figures_step, "coalesce_batches", lambda batches: batches)
    batches = [tables([exchange_of(at, 0, PRODUCE, at, MS)], [], []) for at in range(40)]
    total = figures_step.figures_of(batches, None, None)
    assert total.columns(CALLS).ints("exchanges").sum() == 40
    assert len(merged) == merges
