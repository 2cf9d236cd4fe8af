"""Log-linear buckets: how latencies are counted so that counts from anywhere can be added up.

In come non-negative int64 values, out go bucket numbers; (bucket, count) rows become percentiles again. Every
octave [2^n, 2^(n+1)) is divided into 128 equal buckets, and values below 256 have one bucket each. A bucket
of width w thus starts at 128 w or higher, and its middle is within 1/256 (0.39 %) of any value in it: that is
the error of every percentile. All arithmetic is on integers, so figures do not depend on how rows were
divided among tasks.

Percentiles are those of `quantiles`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdissect.array_types import Int64s
from kdissect.report.aggregate.quantiles import nearest_rank
from kdissect.tables.column_values import run_starts

DENSE_CELLS = 4
"""Groups with up to so many cells (pairs of group and bucket) for each row are added up without sorting."""

SUB_BITS = 7
"""Bits kept after the leading one: 128 buckets to an octave."""

MANTISSA_BITS = 52  # IEEE 754 binary64, which is used as a fast integer logarithm
EXPONENT_BIAS = 1023


def bucket_of(values: Int64s) -> Int64s:
    """Return the bucket number of each value; values are 0 to 2^63 - 1."""
    exact = values
    if len(values) and values.max() >> (MANTISSA_BITS + 1):  # keep float64 from rounding up
        exact = np.where(values >> (MANTISSA_BITS + 1) == 0, values, values & ~np.int64(0xFFF))
    bits = exact.astype(np.float64).view(np.int64) >> (MANTISSA_BITS - SUB_BITS)
    first_octave = (EXPONENT_BIAS + SUB_BITS - 1) << SUB_BITS
    return np.where(values < 1 << SUB_BITS, values, bits - first_octave)


def bucket_bounds(buckets: Int64s) -> tuple[Int64s, Int64s]:
    """Return the lowest and the highest value of each bucket."""
    shift = np.maximum((buckets >> SUB_BITS) - 1, 0)
    lowest = (buckets - (shift << SUB_BITS)) << shift
    return lowest, lowest + (np.int64(1) << shift) - 1


def middle(buckets: Int64s) -> Int64s:
    """Return the value in the middle of each bucket, which stands for all of it."""
    lowest, highest = bucket_bounds(buckets)
    return lowest + (highest - lowest) // 2


@dataclass(frozen=True, slots=True)
class Histograms:
    """Sparse histograms of many groups, ordered by (group, bucket); each pair occurs once."""

    group: Int64s
    bucket: Int64s
    count: Int64s


def add_up(group: Int64s, bucket: Int64s, count: Int64s) -> Histograms:
    """Return the histograms of rows in any order; rows of the same group and bucket are added up."""
    if not len(group):
        return Histograms(group, bucket, count)
    width = int(bucket.max()) + 1
    key = group * width + bucket
    cells = int(key.max()) + 1
    if cells <= DENSE_CELLS * len(key):
        return _add_up_cells(key, count, width, cells)
    order = np.argsort(key)
    key, count = key[order], count[order]
    starts = run_starts(key)
    key = key[starts]
    return Histograms(key // width, key % width, np.add.reduceat(count, starts))


def _add_up_cells(key: Int64s, count: Int64s, width: int, cells: int) -> Histograms:
    """Return histograms from an array with a cell for each key: a tenth of the time of sorting the keys."""
    sums, seen = np.zeros(cells, np.int64), np.zeros(cells, bool)
    np.add.at(sums, key, count)
    seen[key] = True
    found = np.flatnonzero(seen)
    return Histograms(found // width, found % width, sums[found])


def percentiles(counted: Histograms, groups: int, per_mille: Sequence[int]) -> list[Int64s]:
    """Return, for each of `per_mille`, an array of values by group; 0 for a group without values."""
    totals = np.zeros(groups, np.int64)
    np.add.at(totals, counted.group, counted.count)
    before = np.cumsum(totals) - totals
    running = np.cumsum(counted.count)
    by_rank = []
    for mille in per_mille:
        at = np.searchsorted(running, before + nearest_rank(totals, mille), side="left")
        values = np.zeros(groups, np.int64)
        filled = totals > 0
        values[filled] = middle(counted.bucket[at[filled]])
        by_rank.append(values)
    return by_rank


def bounds_at_ranks(counted: Histograms, group: int, ranks: tuple[int, int]) -> tuple[int, int]:
    """Return the lower bound of the value at the first rank, and the upper bound of that at the second.

    Ranks are counted from 1.
    """
    first, last = np.searchsorted(counted.group, [group, group + 1])
    running = np.cumsum(counted.count[first:last])
    low, high = (
        first + min(int(np.searchsorted(running, rank, side="left")), last - first - 1) for rank in ranks
    )
    return int(bucket_bounds(counted.bucket[low : low + 1])[0][0]), int(
        bucket_bounds(counted.bucket[high : high + 1])[1][0]
    )


def variance(counted: Histograms, groups: int) -> npt.NDArray[np.float64]:
    """Return the population variance of each group, where the middle of its bucket stands for each value."""
    value = middle(counted.bucket).astype(np.float64)
    totals = np.bincount(counted.group, counted.count, groups)
    safe = np.maximum(totals, 1)
    mean = np.bincount(counted.group, counted.count * value, groups) / safe
    deviation = value - mean[counted.group]
    spread: npt.NDArray[np.float64] = np.bincount(counted.group, counted.count * deviation**2, groups) / safe
    return spread
