"""Extremes and first rows of groups, against dictionaries of Python."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kdissect.report.aggregate.group_sums import first_rows, highest_by_group, lowest_by_group
from kdissect.report.aggregate.grouping import encode_range, group_rows


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9) | st.none()), min_size=1, max_size=40))
def test_extremes_ignore_what_is_absent(rows):
    groups = group_rows(encode_range(np.array([key for key, _ in rows])))
    values = np.array([0 if value is None else value for _, value in rows])
    present = np.array([value is not None for _, value in rows])
    expected = defaultdict(list)
    for key, value in rows:
        expected[key] += [] if value is None else [value]
    keys = [rows[row][0] for row in groups.first.tolist()]
    assert lowest_by_group(groups, values, present).arrow().to_pylist() == [
        min(expected[key], default=None) for key in keys
    ]
    assert highest_by_group(groups, values, present).arrow().to_pylist() == [
        max(expected[key], default=None) for key in keys
    ]


ORDERED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), max_size=40)


@given(ORDERED)
def test_the_first_row_of_a_group_is_that_of_a_stable_sort(rows):
    keys, first, second = (np.array([row[column] for row in rows], np.int64) for column in range(3))
    groups = group_rows(encode_range(keys))
    expected = {}
    for row in sorted(range(len(rows)), key=lambda row: rows[row][1:]):
        expected.setdefault(int(keys[row]), row)
    found = first_rows(groups, [first, second])
    assert {int(keys[row]): int(row) for row in found} == expected
