"""Nearest-rank quantiles, on numbers worked out by hand and against their definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.report.aggregate.quantiles import nearest_rank, quantile


@pytest.mark.parametrize(
    ("count", "per_mille", "rank"),
    [
        (100, 500, 50),
        (101, 500, 51),
        (1, 500, 1),
        (1, 999, 1),
        (2, 500, 1),
        (100, 990, 99),
        (1000, 999, 999),
        (10, 990, 10),
        (0, 500, 0),
    ],
)
def test_the_rank_is_the_product_rounded_up(count, per_mille, rank):
    assert nearest_rank(count, per_mille) == rank


def test_ranks_of_several_counts_at_once():
    assert nearest_rank(np.array([100, 101, 0]), 500).tolist() == [50, 51, 0]


def test_the_median_of_a_hundred_values_is_the_fiftieth():
    assert quantile(range(1, 101), 500) == 50


@given(st.lists(st.integers(0, 50), min_size=1), st.sampled_from([1, 500, 900, 990, 999, 1000]))
def test_a_quantile_is_the_smallest_value_that_enough_others_do_not_exceed(values, per_mille):
    found = quantile(sorted(values), per_mille)
    assert sum(1000 for value in values if value <= found) >= per_mille * len(values)
    assert sum(1000 for value in values if value < found) < per_mille * len(values)


def test_no_values_have_no_quantile():
    with pytest.raises(IndexError):
        quantile([], 500)
