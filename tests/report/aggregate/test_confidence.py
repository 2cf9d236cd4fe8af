"""Confidence intervals of percentiles against tables in books, sums of the binomial, and trials."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from kdissect.report.aggregate.confidence import confidence_ranks
from kdissect.report.query.figures import exact_latencies
from tests.helpers.tiers import thorough_after


def holds(count: int, part: Fraction, low: int, high: int) -> Fraction:
    """Return the exact probability that the values at two ranks hold the quantile between them."""
    return sum(
        (comb(count, below) * part**below * (1 - part) ** (count - below) for below in range(low, high)),
        Fraction(0),
    )


@pytest.mark.parametrize(
    ("count", "per_mille", "expected"),
    [(5, 500, None), (6, 500, (1, 6)), (10, 500, (2, 9)), (20, 500, (6, 15)), (367, 990, None)],
)
def test_ranks_that_books_print(count, per_mille, expected):
    assert confidence_ranks(count, per_mille) == expected


@pytest.mark.slow
@pytest.mark.parametrize("count", thorough_after(5, [6, 25, 117, 368, 900, 3000]))
@pytest.mark.parametrize("per_mille", [500, 900, 990])
def test_ranks_are_as_tight_as_the_confidence_allows(count, per_mille):
    found = confidence_ranks(count, per_mille)
    part, doubt = Fraction(per_mille, 1000), Fraction(25, 1000)
    if found is None:
        assert (1 - part) ** count > doubt or part**count > doubt
        return
    low, high = found
    assert holds(count, part, low, high) >= Fraction(95, 100)
    assert holds(count, part, 0, low) <= doubt < holds(count, part, 0, low + 1)
    assert holds(count, part, high, count + 1) <= doubt < holds(count, part, high - 1, count + 1)


@pytest.mark.parametrize("per_mille", [500, 990])
def test_the_normal_law_takes_over_without_a_jump(per_mille):
    part = per_mille / 1000
    at = int(1000 / (part * (1 - part)))
    before, after = confidence_ranks(at - 5, per_mille), confidence_ranks(at + 5, per_mille)
    assert before is not None
    assert after is not None
    assert all(abs(one - other) <= 14 for one, other in zip(before, after, strict=True))


def test_the_interval_holds_the_true_median_as_often_as_it_says():
    rng = np.random.default_rng(1)
    median = np.log(2) * 1e6  # of an exponential with mean 1 ms
    hits = 0
    for _ in range(400):
        latency = exact_latencies(rng.exponential(1e6, 60).astype(np.int64)).of(0)
        assert latency.p50_between_ns
        low, high = latency.p50_between_ns
        assert low <= latency.p50_ns <= high
        hits += low <= median <= high
    assert hits >= 372  # 95 % of 400 is 380, three standard deviations are 13; buckets only widen


def test_too_few_values_have_no_interval():
    latency = exact_latencies(np.arange(1, 201) * 1000).of(0)
    assert latency.p99_between_ns is None
    assert latency.p50_between_ns is not None
