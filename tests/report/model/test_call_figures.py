"""Figures of calls: the bounds of their histogram."""

from itertools import pairwise

from kdissect.report.model.call_figures import HISTOGRAM_EDGES_NS


def test_edges_of_the_histogram_ascend_from_10_microseconds_to_100_seconds():
    assert all(before < after for before, after in pairwise(HISTOGRAM_EDGES_NS))
    assert (HISTOGRAM_EDGES_NS[0], HISTOGRAM_EDGES_NS[-1]) == (10**4, 10**11)
