"""The report on a watch is that of one analysis of its captures, while it goes on and when it has ended."""

from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.build.page.page_names import Plain
from kdissect.report.build.regrid import StepGrids
from kdissect.report.model.summary import Summary
from kdissect.report.partials import from_arrow
from kdissect.spark import tasks
from kdissect.spark.capture_facts import capture_facts
from kdissect.spark.figures_step import summary_step
from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_store import BatchStore
from kdissect.spark.watch.figure_files import FOLDER, FiguresError
from kdissect.spark.watch.figure_reader import WatchFigures, read_figures
from kdissect.spark.watch.watch_query import WatchQuery
from kdissect.spark.watch.watch_settings import WatchSettings
from kdissect.spark.watch.watched_directory import WatchedDirectory
from tests.helpers.batch_partials import INCIDENTS
from tests.helpers.rings import as_pcap, ring_files, write_ring

FILES, HALF = 3, 2


def of_watch(figures: WatchFigures) -> tuple[Summary, Plain]:
    summary = build_report(figures.partial, figures.facts)
    return summary, make_page_data(summary, figures.partial, figures.grids.page)


def at_once(paths: list[Path], grids: StepGrids) -> tuple[Summary, Plain]:
    """Return the report and the page of one analysis of files."""
    index = index_captures(open_inputs([str(path) for path in paths], "").files)
    ordinals = (pa.record_batch({"split": [split.index]}) for split in index.splits)
    pieces = tasks.scan_step(ordinals, index.splits, ())
    batches = list(summary_step(pieces, index.splits, grid=grids.page, steps=grids.signals))
    partial = from_arrow(tasks.partials_only(batches))
    summary = build_report(partial, capture_facts(index, tasks.sum_counts(batches)))
    return summary, make_page_data(summary, partial, grids.page)


def test_a_report_is_that_of_one_analysis(engine: Engine, tmp_path: Path) -> None:
    (file,) = open_inputs([str(INCIDENTS / "idle-connection-dropped-2.pcapng.zst")], str(tmp_path)).files
    (tmp_path / "whole.pcap").write_bytes(as_pcap(Path(file.path)))
    paths = write_ring(tmp_path / "ring", ring_files(tmp_path / "whole.pcap", FILES))
    settings = WatchSettings(
        WatchedDirectory(str(tmp_path / "ring")), every_s=0.1, settle_s=0, until_idle_s=0.5, most_files=1
    )
    store = BatchStore(tmp_path / "checkpoint", tmp_path / "out", settings.about())
    meanwhile: list[WatchFigures] = []

    def on_batch(report: BatchReport) -> None:
        if report.commit.files == HALF and not meanwhile:
            meanwhile.append(read_figures(str(tmp_path / "out")))

    try:
        WatchQuery(engine, settings, store, on_batch).run()
    finally:
        store.close()
    for figures, read in ((meanwhile[0], paths[:HALF]), (read_figures(str(tmp_path / "out")), paths)):
        summary, page = of_watch(figures)
        expected, expected_page = at_once(read, figures.grids)
        assert summary == expected
        assert page == expected_page
    assert summary.incidents
    last = read_figures(str(tmp_path / "out"), 1)
    assert last.facts.packets < summary.capture.packets


@pytest.mark.parametrize("name", ["", "notes.txt", "open-00000003.arrow"])
def test_a_place_without_figures_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / FOLDER).mkdir()
    if name:
        (tmp_path / FOLDER / name).write_bytes(b"")
    with pytest.raises(FiguresError, match="holds no figures"):
        read_figures(str(tmp_path))
