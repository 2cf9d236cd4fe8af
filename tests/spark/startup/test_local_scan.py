"""Scans while Spark starts equal those that Spark would have made, as far as it goes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.splits import Split
from kdissect.spark import tasks
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.arrow_ipc import ordered_by_split
from kdissect.spark.failures import DiskFullError
from kdissect.spark.startup.local_scan import scan_locally
from tests.spark.conftest import CAPTURES

CAPTURE = CAPTURES / "steady.pcapng"
SplitsOf = Callable[..., tuple[Split, ...]]


def test_partitions_hold_the_pieces_of_their_connections(splits_of: SplitsOf, tmp_path: Path) -> None:
    splits = splits_of(CAPTURE, split_bytes=200_000)
    shares = AnalysisWork(splits, partitions=3).shares(1)
    ahead = scan_locally(splits, (), shares, tmp_path / "pieces", lambda: False)
    assert ahead.done == len(splits) > 2
    ordinals = [pa.record_batch({"split": [split.index for split in splits]})]
    expected: list[list[pa.RecordBatch]] = [[], [], []]
    for pieces in tasks.scan_step(ordinals, splits, ()):
        for partition, rows in tasks.split_by_partition(pieces, shares.of_bucket):
            expected[partition].append(rows)
    for partition, batches in enumerate(expected):
        assert list(ordered_by_split(ahead.blobs[partition])) == batches


def test_when_spark_is_there_what_takes_longer_than_a_stage_is_left_to_it(
    splits_of: SplitsOf, tmp_path: Path
) -> None:
    splits = splits_of(CAPTURE, split_bytes=200_000)
    shares = AnalysisWork(splits, partitions=2).shares(1)
    asked = iter([False, False])
    some = scan_locally(splits, (), shares, tmp_path / "some", lambda: next(asked, True), seconds=0)
    assert some.done == 2
    assert scan_locally(splits, (), shares, tmp_path / "none", lambda: True, seconds=0).done == 0
    assert scan_locally(splits, (), shares, tmp_path / "all", lambda: True, seconds=600).done == len(splits)


def test_one_core_gains_nothing_from_a_stage(splits_of: SplitsOf, tmp_path: Path) -> None:
    splits = splits_of(CAPTURE, split_bytes=200_000)
    shares = AnalysisWork(splits, partitions=2).shares(1)
    alone = scan_locally(splits, (), shares, tmp_path / "pieces", lambda: True, seconds=0, cores=1)
    assert alone.done == len(splits)


def test_large_packets_are_expected_to_take_less_than_their_bytes(
    splits_of: SplitsOf, tmp_path: Path
) -> None:
    """A scan skips most of them, so it is begun although Spark is ready."""
    (split,) = splits_of(CAPTURE)
    large, small = (
        replace(split, stop=4 << 30, packets=100_000),
        replace(split, stop=4 << 30, packets=40_000_000),
    )
    for given, done in ((large, 1), (small, 0)):
        shares = AnalysisWork((split,), partitions=2).shares(1)
        ahead = scan_locally((given,), (), shares, tmp_path / "pieces", lambda: True)
        assert ahead.done == done


def test_a_split_that_cannot_be_read_ends_it(splits_of: SplitsOf, tmp_path: Path) -> None:
    splits = splits_of(CAPTURE, split_bytes=200_000)
    shares = AnalysisWork(splits, partitions=2).shares(1)
    gone = (splits[0], replace(splits[1], path=str(tmp_path / "gone")), *splits[2:])
    assert scan_locally(gone, (), shares, tmp_path / "pieces", lambda: False).done == 1


def test_a_disk_that_is_full_is_told_at_once(splits_of: SplitsOf) -> None:
    splits = splits_of(CAPTURE)
    with pytest.raises(DiskFullError, match="TMPDIR"):
        scan_locally(splits, (), AnalysisWork(splits).shares(1), Path("/dev/full"), lambda: False)
