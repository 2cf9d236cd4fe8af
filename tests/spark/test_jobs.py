"""The same steps on Spark: what jobs return, and a step that fails."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from kdissect.capture.index.splits import Split
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import from_arrow
from kdissect.spark import jobs, tasks
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.figures_step import summary_step
from kdissect.spark.session import Engine
from tests.helpers.local_scans import scanned_here
from tests.spark.conftest import CAPTURES

pytestmark = pytest.mark.spark

SplitsOf = Callable[..., tuple[Split, ...]]
FIRST = min(CAPTURES.glob("*.pcap*"))


@pytest.mark.parametrize("ahead", [None, 0, 2, 1000])
def test_analysis_is_what_the_steps_give_without_spark(
    engine: Engine, splits_of: SplitsOf, tmp_path: Path, ahead: int | None
) -> None:
    whole, cut = splits_of(FIRST), splits_of(FIRST, split_bytes=100_000)
    pieces = [batch for split in whole for batch in tasks.scan_step([ordinal(split)], whole, ())]
    rows = list(summary_step(pieces, whole))
    work = AnalysisWork(cut, partitions=5)
    if ahead is not None:
        done = scanned_here(cut[-ahead:] if ahead else (), work.shares(2), tmp_path)
        assert len(done.scanned) == min(ahead, len(cut))
        work = replace(work, ahead=done)
    analysis = jobs.merge_figures(jobs.figures(engine.context(), work))
    assert analysis.counts == tasks.sum_counts(rows)
    assert analysis.counts.packets == sum(split.packets for split in whole)
    facts = CaptureFacts()
    assert build_report(analysis.partial, facts) == build_report(from_arrow(tasks.partials_only(rows)), facts)


def test_a_failing_step_is_one_sentence(engine: Engine, splits_of: SplitsOf, tmp_path: Path) -> None:
    from kdissect.spark.failures import explain

    gone = tmp_path / "gone.pcapng"
    gone.write_bytes(FIRST.read_bytes())
    work = AnalysisWork(splits_of(gone))
    gone.unlink()
    with pytest.raises(Exception) as raised:  # noqa: PT011 - PySpark's, whatever it is
        jobs.figures(engine.context(), work)
    sentence = explain(raised.value)
    assert "gone.pcapng" in sentence
    assert "\n" not in sentence


def ordinal(split: Split) -> pa.RecordBatch:
    return pa.record_batch({"split": [split.index]})
