"""The command `report`: the renderers of `analyze` on the figures of a watch, without Spark."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.cli.arguments import parse
from kdissect.cli.report import report
from kdissect.errors import ExitCode, UserError
from kdissect.report.build.recent_report import endless_grid, endless_page_grid
from kdissect.report.build.regrid import StepGrids
from kdissect.report.partials import EMPTY, Partial, from_arrow
from kdissect.spark import tasks
from kdissect.spark.capture_facts import capture_facts
from kdissect.spark.figures_step import summary_step
from kdissect.spark.watch.figure_files import FigureHeader, write_batch
from tests.helpers.batch_partials import INCIDENTS


def write_figures(out: Path, spool: Path) -> None:
    """Write the figures of a capture as one batch."""
    inputs = open_inputs([str(INCIDENTS / "idle-connection-dropped-1.pcapng.zst")], str(spool))
    index = index_captures(inputs.files)
    first_ns, last_ns = index.earliest_time_ns or 0, index.latest_time_ns or 0
    grids = StepGrids(endless_grid(first_ns), endless_page_grid(first_ns))
    pieces = tasks.scan_step([pa.record_batch({"split": [0]})], index.splits, ())
    batches = list(summary_step(pieces, index.splits, grid=grids.page, steps=grids.signals))
    facts = capture_facts(index, tasks.sum_counts(batches))
    out.mkdir()
    header = FigureHeader(0, 0, first_ns, last_ns, grids, facts)
    write_batch(out, header, from_arrow(tasks.partials_only(batches)), EMPTY)


def test_a_report_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_figures(tmp_path / "out", tmp_path)
    options = ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]
    assert report(parse(["report", str(tmp_path / "out"), "--last", "1h", *options])) == ExitCode.DONE
    assert "dropped-1.pcapng" in capsys.readouterr().out  # a long path is cut in the middle
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["totals"]["exchanges"] > 0
    assert "<html" in (tmp_path / "r.html").read_text()
    failing = ["report", str(tmp_path / "out"), "--format", "json", "--fail-on", "all.calls>0"]
    assert report(parse(failing)) == ExitCode.CONDITION_MET
    assert json.loads(capsys.readouterr().out) == found


def test_a_watch_without_kafka_is_one_sentence(tmp_path: Path) -> None:
    grids = StepGrids(endless_grid(0), endless_page_grid(0))
    write_batch(tmp_path, FigureHeader(0, 0, 1, 1, grids), Partial({}), EMPTY)
    with pytest.raises(UserError, match="has seen no Kafka traffic"):
        report(parse(["report", str(tmp_path)]))
