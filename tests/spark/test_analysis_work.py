"""Work knows how connections are partitioned: as what was scanned ahead has it, or by its own sample."""

from pathlib import Path

from kdissect.spark.analysis_work import AnalysisWork
from tests.helpers.local_scans import scanned_here
from tests.spark.conftest import CAPTURES
from tests.spark.test_jobs import SplitsOf


def test_partitions_are_those_of_what_was_scanned_ahead(splits_of: SplitsOf, tmp_path: Path) -> None:
    splits = splits_of(CAPTURES / "steady.pcapng", split_bytes=100_000)
    work = AnalysisWork(splits, partitions=5)
    assert work.shares(2).partitions == 5
    ahead = scanned_here(splits, work.shares(2), tmp_path)
    assert AnalysisWork(splits, partitions=7, ahead=ahead).shares(2) is ahead.shares
    assert AnalysisWork(splits, ahead=ahead).with_guess().guess_by is None
