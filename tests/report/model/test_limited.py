"""Lists that end: what is kept, and how many rows were left out."""

from kdissect.report.model.limited import Limited, limited


def test_what_is_beyond_the_limit_is_counted():
    assert limited([1, 2, 3], 2) == Limited((1, 2), 1)
    assert limited([1, 2, 3], 3) == Limited((1, 2, 3), 0)
    assert limited([], 3) == Limited((), 0)
