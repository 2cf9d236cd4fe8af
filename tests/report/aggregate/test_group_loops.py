"""The loops that number rows by group and add up, held to the plain way with NumPy."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate import group_loops, grouping
from kdissect.report.aggregate.group_sums import (
    first_rows,
    highest_by_group,
    highest_values,
    lowest_by_group,
    lowest_values,
    sum_by_group,
)
from kdissect.report.aggregate.grouping import (
    DIRECT_LIMIT,
    FEW_KEYS,
    Codes,
    RowGroups,
    encode_range,
    group_rows,
)

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
NUMBERS = st.integers(LOWEST + 1, HIGHEST - 1) | st.integers(-3, 3)
BOUNDS = st.sampled_from((1, 3, 50, 2 * DIRECT_LIMIT, 1 << 30))


def by_loops(patch: pytest.MonkeyPatch, many: bool) -> None:
    """Choose loops or the plain way from now on."""
    patch.setattr(grouping, "are_many", lambda rows: many and rows > 0)


@st.composite
def key_columns(draw: st.DrawFn) -> tuple[Codes, ...]:
    """Return columns of codes of the same length, with few or very many possible codes."""
    rows, columns = draw(st.integers(0, 30) | st.just(2 * FEW_KEYS)), draw(st.integers(1, 5))
    bounds = [draw(BOUNDS) for _ in range(columns)]
    return tuple(
        Codes(
            np.array(draw(st.lists(st.integers(-1, bound - 1), min_size=rows, max_size=rows)), np.int64),
            bound,
        )
        for bound in bounds
    )


@given(columns=key_columns())
def test_rows_have_the_same_groups_and_first_rows_either_way(columns: tuple[Codes, ...]) -> None:
    found = []
    for many in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            by_loops(patch, many)
            found.append(group_rows(*columns))
    plain, looped = found
    assert plain.count == looped.count
    assert plain.of.tolist() == looped.of.tolist()
    assert (np.diff(plain.first) > 0).all()
    assert plain.first.tolist() == looped.first.tolist()


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), NUMBERS, st.booleans(), st.integers(0, 2)), max_size=40),
)
def test_sums_extremes_and_first_rows_are_the_same_either_way(
    rows: list[tuple[int, int, bool, int]],
) -> None:
    of, values, present, second = (np.array([row[place] for row in rows]) for place in range(4))
    of, values, second = (column.astype(np.int64) for column in (of, values, second))
    present = present.astype(bool)
    groups = RowGroups(of, 5, np.zeros(5, np.int64))
    found = []
    for many in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            by_loops(patch, many)
            found.append(_measured(groups, values, present, second))
    assert found[0] == found[1]


def _measured(groups: RowGroups, values: Int64s, present: Bools, second: Int64s) -> list[list[int | None]]:
    with np.errstate(over="ignore"):
        columns: list[pa.Array | Int64s] = [
            sum_by_group(groups, values),
            sum_by_group(groups, present),
            lowest_by_group(groups, values, present).arrow(),
            highest_by_group(groups, values, present).arrow(),
            first_rows(groups, [values, second]),
            first_rows(groups, [second, values]),
        ]
    return [column.tolist() for column in columns]


@given(
    rows=st.lists(
        st.tuples(st.integers(-9, 9) | st.integers(-(1 << 40), 1 << 40), st.booleans()), max_size=30
    )
)
def test_distances_and_extremes_of_all_rows_are_the_same_either_way(rows: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in rows], np.int64)
    present = np.array([there for _, there in rows], bool)
    groups = RowGroups(np.arange(len(rows)) % 3, 4, np.zeros(4, np.int64))
    found = []
    for many in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            by_loops(patch, many)
            codes = [encode_range(values, present), encode_range(values)]
            extremes = [lowest_values(groups, values), highest_values(groups, values)]
            found.append(
                ([(code.numbers.tolist(), code.bound) for code in codes], [one.tolist() for one in extremes])
            )
    assert found[0] == found[1]


def test_many_rows_are_numbered_whichever_table_is_used() -> None:
    keys = np.arange(20_000, dtype=np.int64) * 7919 % 5003
    plain = np.unique(keys, return_index=True, return_inverse=True)
    for direct in (True, False):
        of, first = group_loops.number_keys(keys, 5003, direct)
        assert (keys[first][of] == keys).all()
        assert sorted(first.tolist()) == sorted(plain[1].tolist())
        assert (np.diff(first) > 0).all()


def test_every_loop_can_be_called() -> None:
    group_loops.call_all()
    assert group_loops.number_keys(np.array([5, 5, 2]), 6, direct=True)[0].tolist() == [0, 0, 1]
