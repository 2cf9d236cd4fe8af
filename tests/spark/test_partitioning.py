"""Sharing out: nothing is left over, the heavy stand apart, and a sample is only a look."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kdissect.capture.flow_pieces import BUCKETS
from kdissect.capture.index.sampling import (
    LOOK_BYTES,
    NO_SAMPLE,
    Sample,
    take_sample,
)
from kdissect.capture.index.splits import Split
from kdissect.spark import tasks as steps
from kdissect.spark.partitioning import (
    is_lonely,
    partition_buckets,
    partitions_for,
    tasks_for,
)
from tests.spark.conftest import CAPTURES

SplitsOf = Callable[..., tuple[Split, ...]]


def sample_of(segments: dict[int, int]) -> Sample:
    seen = np.zeros(BUCKETS, np.int64)
    for bucket, count in segments.items():
        seen[bucket] = count
    return Sample(1 << 30, seen, len(segments))


@pytest.mark.parametrize(
    ("segments", "cores", "lonely"),
    [
        ({5: 1000, 6: 3}, 2, True),
        ({5: 1000}, 1, False),
        ({5: 500, 6: 400, 7: 100}, 2, False),
        ({}, 2, False),
        (dict.fromkeys(range(6), 100), 16, True),
        (dict.fromkeys(range(14), 100), 16, False),
    ],
)
def test_a_partition_with_most_of_a_capture_is_lonely(
    segments: dict[int, int], cores: int, *, lonely: bool
) -> None:
    sample = sample_of(segments)
    shares = partition_buckets(sample, cores)
    assert is_lonely(sample, shares, cores, 200) == lonely
    assert not is_lonely(sample, shares, cores, 9000)
    assert not is_lonely(replace(sample, bytes=1 << 20), shares, cores, 200)


@pytest.mark.parametrize(
    ("size", "connections", "cores", "partitions"),
    [
        (1, 1, 2, 1),
        (16 << 20, 500, 2, 1),
        (16 << 20, 501, 2, 2),
        (17 << 20, 1, 2, 2),
        (0, 0, 2, 2),
        (8 << 30, 100, 2, 2),
        (16 << 30, 100, 2, 4),
        (16 << 30, 100, 3, 6),
        (1 << 50, 100, 2, 4096),
        (1 << 30, 100_000, 2, 12),
    ],
)
def test_partitions_follow_size_connections_and_cores(
    size: int, connections: int, cores: int, partitions: int
) -> None:
    assert partitions_for(Sample(size, NO_SAMPLE.segments, connections), cores) == partitions


def test_the_heaviest_connection_stands_alone() -> None:
    shares = partition_buckets(sample_of({7: 1_000_000} | dict.fromkeys(range(100, 1100), 10)), 4)
    alone = shares.of_bucket[7]
    assert all(shares.of_bucket[bucket] != alone for bucket in range(100, 1100))
    others = np.bincount(shares.of_bucket[100:1100], minlength=4)
    assert sorted(others.tolist()) == [0, 333, 333, 334]


def test_even_connections_are_shared_evenly_whatever_their_buckets() -> None:
    shares = partition_buckets(sample_of({2 * bucket: 100 for bucket in range(6)}), 2)
    assert sorted(shares.of_bucket[0:12:2].tolist()) == [0, 0, 0, 1, 1, 1]


def test_every_bucket_has_a_partition() -> None:
    for sample in (NO_SAMPLE, sample_of({0: 5, 65535: 5})):
        shares = partition_buckets(sample, 7)
        assert set(np.unique(shares.of_bucket).tolist()) == set(range(7))
        assert len(shares.of_bucket) == BUCKETS


def test_a_sample_of_a_small_capture_sees_all_of_it(splits_of: SplitsOf) -> None:
    splits = splits_of(CAPTURES / "steady.pcapng")
    assert splits[0].stop < LOOK_BYTES
    sample = take_sample(splits)
    pieces = next(iter(steps.scan_step([pa.record_batch({"split": [0]})], splits, ()))).to_pylist()[:-1]
    by_bucket: dict[int, int] = {}
    for row in pieces:
        by_bucket[row["bucket"]] = by_bucket.get(row["bucket"], 0) + row["count"]
    assert {bucket: int(sample.segments[bucket]) for bucket in np.flatnonzero(sample.segments)} == by_bucket
    assert sample.connections == len(pieces)
    assert take_sample(splits, [1]).connections == 0


@pytest.mark.parametrize(
    ("splits", "cores", "tasks"),
    [(1, 2, 1), (3, 2, 3), (80, 2, 4), (80, 1, 2), (80, 16, 32), (6_400, 2, 100), (6_401, 2, 101)],
)
def test_a_task_scans_several_splits_but_not_too_many(splits: int, cores: int, tasks: int) -> None:
    assert tasks_for(splits, cores) == tasks
