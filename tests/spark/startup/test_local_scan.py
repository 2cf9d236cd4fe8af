"""Scans while Spark starts equal those that Spark would have made."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kdissect.capture.flow_pieces import BUCKETS
from kdissect.capture.index import index
from kdissect.capture.index.index import RANGE_BYTES, in_threads, index_captures
from kdissect.capture.index.sampling import NO_SAMPLE, Sample, rough_sample
from kdissect.capture.inputs import CaptureFile
from kdissect.spark import tasks
from kdissect.spark.arrow_ipc import ordered_by_split
from kdissect.spark.failures import DiskFullError
from kdissect.spark.file_parts import FilePartWriter, parts_in
from kdissect.spark.partitioning import partition_buckets
from kdissect.spark.startup.local_scan import LARGE_SEGMENT, MANY_CONNECTIONS, LocalScan, LocalScanner
from tests.spark.conftest import CAPTURES

FILES = [CaptureFile(str(CAPTURES / name), name) for name in ("steady.pcapng", "broker-restart.pcapng")]
SPLIT_BYTES = 200_000


def scans_into(writer: FilePartWriter, sample: Sample = NO_SAMPLE) -> LocalScanner:
    """Return what scans splits for three partitions."""
    return LocalScanner((), sample, partition_buckets(sample, 3), writer)


def test_partitions_hold_the_pieces_of_their_connections(tmp_path: Path) -> None:
    """Files are in the order of their times in the end, which nobody knows while they are scanned."""
    sample = rough_sample(FILES, ())
    assert sample is not None
    with parts_in(tmp_path / "pieces") as writer:
        here = scans_into(writer, sample)
        found = index_captures(FILES, SPLIT_BYTES, run=partial(in_threads, scans=here.scans))
    ahead = here.result(found.splits)
    assert ahead.scanned == set(range(len(found.splits)))
    assert len(ahead.scanned) > 4
    ordinals = [pa.record_batch({"split": [split.index for split in found.splits]})]
    expected: list[list[pa.RecordBatch]] = [[], [], []]
    for pieces in tasks.scan_step(ordinals, found.splits, ()):
        for partition, rows in tasks.split_by_partition(pieces, here.shares.of_bucket):
            expected[partition].append(rows)
    for partition, batches in enumerate(expected):
        assert batches
        assert list(ordered_by_split(ahead.blobs[partition])) == batches


def test_nothing_that_was_kept_is_nothing_that_was_scanned() -> None:
    shares = partition_buckets(NO_SAMPLE, 2)
    assert LocalScan.of({}, shares) == LocalScan(frozenset(), shares, ((), ()))


def test_a_disk_that_is_full_is_told_at_once() -> None:
    with parts_in(Path("/dev/full")) as writer, pytest.raises(DiskFullError, match="TMPDIR"):
        index_captures(FILES, SPLIT_BYTES, run=partial(in_threads, scans=scans_into(writer).scans))


SIZES = {
    "few": (MANY_CONNECTIONS - 1, LARGE_SEGMENT - 1, 1),
    "many": (MANY_CONNECTIONS, 100, 2),
    "large": (5, LARGE_SEGMENT, 2),
}


@pytest.mark.parametrize(("connections", "size", "times"), SIZES.values(), ids=SIZES)
def test_many_connections_and_large_segments_meet_fewer_splits(
    tmp_path: Path, connections: int, size: int, times: int
) -> None:
    segments = np.zeros(BUCKETS, np.int64)
    segments[:10] = 3
    with parts_in(tmp_path / "pieces") as writer:
        sample = Sample(1 << 30, segments, connections, looked=30 * size)
        assert scans_into(writer, sample).split_bytes == times * index.SPLIT_BYTES


def test_threads_end_together(tmp_path: Path) -> None:
    with parts_in(tmp_path / "pieces") as writer:
        sizes = [
            scans_into(writer, Sample(size, NO_SAMPLE.segments, 0)).range_bytes(2) for size in (800, 1 << 40)
        ]
    assert sizes == [100, RANGE_BYTES]
