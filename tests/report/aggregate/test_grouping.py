"""Columns as arrays and groups of rows, against dictionaries of Python."""

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kdissect.report.aggregate.group_sums import sum_by_group
from kdissect.report.aggregate.grouping import (
    Codes,
    TableColumns,
    coarser,
    distinct_numbers,
    encode,
    encode_numbers,
    encode_range,
    encode_runs,
    group_rows,
    map_distinct,
    name_distinct,
)
from kdissect.tables.array_batch import array_batch

TABLE = pa.table(
    {
        "number": pa.array([3, None, 5], pa.int32()),
        "other": pa.array([1, 2, None], pa.int64()),
        "text": ["a", None, "b"],
        "flag": [True, None, False],
    }
)
VALUES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["x", "y", None])), max_size=60)


def test_null_is_zero_false_and_absent():
    columns = TableColumns(TABLE)
    assert columns.ints("number").tolist() == [3, 0, 5]
    assert columns.present("number").tolist() == [True, False, True]
    assert columns.bools("flag").tolist() == [True, False, False]
    assert columns.equals("text", "a").tolist() == [True, False, False]
    assert columns.coalesce("number", "other").tolist() == [3, 2, 5]
    assert columns.filter(np.array([True, False, True])).ints("number").tolist() == [3, 5]


@given(VALUES)
def test_groups_are_those_of_a_dictionary(values):
    numbers = np.array([number for number, _ in values], np.int64)
    groups = group_rows(encode_range(numbers), encode(pa.array([text for _, text in values], pa.string())))
    assert groups.count == len(set(values))
    assert [values[row] for row in groups.first[groups.of]] == values
    assert all(values.index(values[row]) == row for row in groups.first.tolist())
    counts = Counter(values)
    sums = sum_by_group(groups, np.ones(len(values), bool))
    assert {values[row]: count for row, count in zip(groups.first, sums.tolist(), strict=True)} == counts


def test_runs_of_equal_values_have_equal_codes():
    codes = encode_runs(np.array([7, 7, 2, 2, 7]))
    assert codes.numbers.tolist() == [0, 0, 1, 1, 0]
    assert codes.bound == 2
    assert encode_runs(np.array([], np.int64)).bound == 0


def test_many_wide_columns_do_not_overflow():
    wide = Codes(np.array([0, 5, 5]), 1 << 40)
    assert group_rows(wide, wide, wide).of.tolist() == [0, 1, 1]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 3)), max_size=40))
def test_numbers_of_any_range_are_told_apart(values):
    present = np.array([value is not None for value in values], bool)
    numbers = np.array([value or 0 for value in values], np.int64)
    codes = encode_numbers(numbers, present)
    assert (codes.numbers >= 0).tolist() == present.tolist()
    pairs = {(value, int(code)) for value, code in zip(values, codes.numbers, strict=True)}
    assert len(pairs) == len(set(values)) == len({code for _, code in pairs})
    assert all(code < codes.bound for _, code in pairs)


def test_many_numbers_have_the_codes_that_arrow_gives_them():
    random = np.random.default_rng(8)
    numbers = np.repeat(random.integers(-(1 << 60), 1 << 60, 500), 3)
    values = random.permutation(np.tile(numbers, 5))
    expected = pa.array(values).dictionary_encode()
    codes = encode_numbers(values, np.ones(len(values), bool))
    assert codes.numbers.tolist() == expected.indices.to_pylist()
    assert codes.bound == len(expected.dictionary)
    heads = encode_runs(np.repeat(values, 2)).numbers
    assert heads[::2].tolist() == heads[1::2].tolist() == expected.indices.to_pylist()


def test_another_column_stands_in_for_null():
    table = TableColumns(pa.table({"some": [1, None, 3], "all": [4, 5, 6]}))
    assert table.coalesce("some", "all").tolist() == [1, 5, 3]
    assert table.coalesce("all", "some").tolist() == [4, 5, 6]


def test_equal_rows_ask_a_function_once():
    asked = []
    columns = pa.array(["a", "b", "a", None]), pa.array([1, 1, 1, None])
    made, of = map_distinct(lambda *row: asked.append(row) or row, *columns)
    assert [made[number] for number in of] == [("a", 1), ("b", 1), ("a", 1), (None, None)]
    assert sorted(asked, key=str) == [("a", 1), ("b", 1), (None, None)]


def test_rows_of_one_name_share_its_number():
    columns = pa.array(["a", None, "b", "a"]), pa.array(["x", "x", "y", "x"])
    names = name_distinct(lambda _, second: None if second == "y" else second, *columns)
    assert names.arrow().to_pylist() == ["x", "x", None, "x"]
    assert names.numbers.tolist() == [0, 0, -1, 0]


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30))
def test_groups_of_groups_are_those_of_the_rows(rows: list[tuple[int, int]]) -> None:
    columns = [Codes(np.array([row[place] for row in rows], np.int64), 4) for place in (0, 1)]
    fine = group_rows(*columns)
    coarse = coarser(fine, Codes(columns[0].numbers[fine.first], 4))
    plain = group_rows(columns[0])
    assert (coarse.of.tolist(), coarse.count) == (plain.of.tolist(), plain.count)
    assert coarse.first.tolist() == plain.first.tolist()


def test_rows_are_taken_of_arrow_and_of_arrays():
    table = TABLE.drop(["flag"])
    for columns in (
        TableColumns(table),
        TableColumns(array_batch(table.combine_chunks().to_batches()[0], table.schema)),
    ):
        taken = columns.take(np.array([2, 0]))
        assert taken.rows == 2
        assert taken.values("number") == [5, 3]
        assert taken.filter(np.array([False, True])).values("text") == ["a"]
        assert columns.dicts() == table.to_pylist()
        assert taken.dicts("text", "other") == [{"text": "b", "other": None}, {"text": "a", "other": 1}]


@given(st.lists(st.integers(0, 50), max_size=80))
def test_distinct_numbers_are_those_of_a_set(numbers):
    found = distinct_numbers(np.array(numbers, np.int64), 51)
    assert found.tolist() == sorted(set(numbers))
