"""Buckets and percentiles against exact ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.report.aggregate import histogram
from kdissect.report.aggregate.histogram import (
    add_up,
    bucket_bounds,
    bucket_of,
    middle,
    percentiles,
)

HIGHEST = 2**63 - 1


@given(st.lists(st.integers(0, HIGHEST), min_size=1, max_size=50))
def test_every_value_lies_in_its_bucket_and_near_the_middle(values):
    values = np.array(values, np.int64)
    buckets = bucket_of(values)
    lowest, highest = bucket_bounds(buckets)
    assert (lowest <= values).all()
    assert (values <= highest).all()
    for value, stand_in in zip(values.tolist(), middle(buckets).tolist(), strict=True):
        assert abs(stand_in - value) * 256 <= value


def test_buckets_follow_each_other_without_gap_or_overlap():
    buckets = np.arange(7296)
    lowest, highest = bucket_bounds(buckets)
    assert (lowest[1:] == highest[:-1] + 1).all()
    assert lowest[0] == 0
    assert highest[-1] == HIGHEST
    assert (bucket_of(lowest) == buckets).all()
    assert (bucket_of(highest) == buckets).all()


@pytest.mark.parametrize("bits", range(1, 63))
def test_the_edges_of_octaves(bits):
    around = np.array([(1 << bits) - 1, 1 << bits, (1 << bits) + 1], np.int64)
    lowest, highest = bucket_bounds(bucket_of(around))
    assert ((lowest <= around) & (around <= highest)).all()


@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("count", [1, 2, 3, 9, 10, 11, 99, 1000, 20_001])
def test_percentiles_are_within_half_a_percent_of_the_nearest_rank(spread, count):
    values = np.exp(np.random.default_rng(count).normal(15, spread, count)).astype(np.int64)
    group = np.zeros(count, np.int64)
    counted = add_up(group, bucket_of(values), group + 1)
    found = percentiles(counted, 1, (1, 500, 900, 990, 999, 1000))
    for mille, got in zip((1, 500, 900, 990, 999, 1000), found, strict=True):
        exact = np.sort(values)[-(-count * mille // 1000) - 1]
        assert abs(int(got[0]) - int(exact)) <= 0.005 * exact


def test_cells_and_sorting_add_up_alike(monkeypatch):
    rng = np.random.default_rng(5)
    for groups, most in ((1, 50), (3, 7296), (400, 7296)):
        rows = rng.integers(0, groups, 900), rng.integers(0, most, 900), rng.integers(0, 9, 900)
        plain: dict[tuple[int, int], int] = {}
        for group, bucket, count in zip(*(column.tolist() for column in rows), strict=True):
            plain[group, bucket] = plain.get((group, bucket), 0) + count
        for cells in (0, 1 << 20):
            monkeypatch.setattr(histogram, "DENSE_CELLS", cells)
            summed = add_up(*rows)
            pairs = zip(summed.group.tolist(), summed.bucket.tolist(), strict=True)
            assert list(zip(pairs, summed.count.tolist(), strict=True)) == sorted(plain.items())


def test_percentiles_of_many_groups_at_once():
    rng = np.random.default_rng(3)
    group, values = rng.integers(0, 40, 5000), rng.integers(0, 10**9, 5000)
    group[group == 7] = 8  # one group stays empty
    found = percentiles(add_up(group, bucket_of(values), np.ones(5000, np.int64)), 40, (500,))[0]
    for number in range(40):
        own = values[group == number]
        exact = np.percentile(own, 50, method="inverted_cdf") if len(own) else 0
        assert abs(int(found[number]) - exact) <= 0.005 * exact


def test_counts_weigh():
    counted = add_up(np.array([0, 0, 0]), np.array([5, 3, 5]), np.array([1, 97, 2]))
    assert counted.bucket.tolist() == [3, 5]
    assert counted.count.tolist() == [97, 3]
    assert [int(value[0]) for value in percentiles(counted, 1, (970, 971, 1000))] == [3, 5, 5]
