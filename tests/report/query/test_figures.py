"""Latencies of single values against plain loops."""

import numpy as np
import pytest

from kdissect.report.query.figures import exact_latencies
from tests.report import plain_report


def test_no_values_have_no_latency():
    assert exact_latencies(np.array([], np.int64)).of(0) is None


@pytest.mark.parametrize("count", [1, 2, 99, 1000])
def test_sums_and_extremes_are_exact_and_percentiles_near(count):
    values = np.random.default_rng(count).lognormal(13, 2, count).astype(np.int64)
    found, expected = exact_latencies(values).of(0), plain_report.latency(values.tolist())
    for name in ("count", "sum_ns", "mean_ns", "min_ns", "max_ns"):
        assert getattr(found, name) == expected[name]
    for name in ("p50_ns", "p90_ns", "p99_ns", "p99_9_ns"):
        assert getattr(found, name) == pytest.approx(expected[name], rel=0.004)
    assert sum(found.histogram) == count
