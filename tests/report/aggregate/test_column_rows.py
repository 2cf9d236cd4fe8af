"""Rows of columns that are taken later: the same values as if they were taken at once."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.column_rows import (
    AnyColumn,
    ColumnRows,
    PlainColumn,
    columns_at,
    plain_column,
    take_rows,
)
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.tables.coded_text import CodedText, NumberColumn

TEXTS = CodedText(np.array([0, 1, -1, 0]), pa.array(["a", "b"]))
NUMBERS = NumberColumn(np.array([5, 7, 0, -8]), np.array([True, True, False, True]), pa.int16())
ROWS, AGAIN = np.array([3, 2, 1, 1]), np.array([2, 0])


def values(column: PlainColumn) -> list[object]:
    """Return the values of a column."""
    return list((column.arrow() if isinstance(column, CodedText | NumberColumn) else column).tolist())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array([10, 11, 12, 13]), [13, 12, 11, 11]),
        (np.array([True, False, False, True]), [True, False, False, False]),
        (pa.array([1, None, 3, 4]), [4, 3, None, None]),
        (NUMBERS, [-8, None, 7, 7]),
        (TEXTS, ["a", None, "b", "b"]),
    ],
)
def test_rows_are_those_of_the_column(column: PlainColumn, expected: list[object]) -> None:
    later = ColumnRows(column, ROWS)
    assert len(later) == len(ROWS)
    assert values(plain_column(later)) == expected == values(take_rows(column, ROWS))
    assert values(take_rows(later, AGAIN)) == [expected[2], expected[0]]
    assert plain_column(column) is column


@pytest.mark.parametrize(("column", "expected"), [(TEXTS, [None, "a"]), (NUMBERS, [None, 5])])
def test_a_row_of_nothing_is_null(column: PlainColumn, expected: list[object]) -> None:
    assert values(plain_column(ColumnRows(column, np.array([-1, 0])))) == expected


@pytest.mark.parametrize("column", [TEXTS, NUMBERS])
def test_rows_of_an_empty_column_are_null(column: CodedText | NumberColumn) -> None:
    empty = column.take(np.array([], np.int64))
    assert empty.take(np.array([-1, -1])).arrow().to_pylist() == [None, None]


def test_numbers_have_the_type_of_their_table() -> None:
    assert NUMBERS.arrow().equals(pa.array([5, 7, None, -8], pa.int16()))
    table = TableColumns(pa.table({"number": NUMBERS.arrow()}))
    column = table.column("number")
    assert isinstance(column, NumberColumn)
    assert column.arrow().equals(NUMBERS.arrow())


@pytest.mark.parametrize("cut", [0, 1, 3, 4])
def test_columns_are_the_same_in_any_chunks(cut: int) -> None:
    """Values behind nulls must not show, wherever a slice of an array begins."""
    numbers = pa.Array.from_buffers(
        pa.int32(), 4, [pa.py_buffer(b"\x0b"), pa.py_buffer(np.array([5, 7, 99, -8], np.int32))]
    )
    texts = pa.array(["a", "b", None, "a"])
    whole = pa.table({"number": numbers, "text": texts})
    columns = TableColumns(pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]))
    assert columns.ints("number").tolist() == [5, 7, 0, -8]
    assert columns.present("number").tolist() == [True, True, False, True]
    assert columns.text("text").arrow().to_pylist() == texts.to_pylist()
    coded = pa.table({"text": texts.dictionary_encode()})
    parts = pa.concat_tables([coded.slice(0, cut), pa.table({"text": pa.array(["b"]).dictionary_encode()})])
    assert TableColumns(parts).text("text").arrow().to_pylist() == [*texts.to_pylist()[:cut], "b"]


def test_columns_that_share_their_rows_share_those_that_are_taken() -> None:
    columns: dict[str, AnyColumn] = {"texts": ColumnRows(TEXTS, ROWS), "numbers": ColumnRows(NUMBERS, ROWS)}
    columns["plain"] = NUMBERS
    taken = columns_at(columns, AGAIN)
    for name, column in columns.items():
        assert values(plain_column(taken[name])) == values(take_rows(column, AGAIN)), name
    texts, numbers = taken["texts"], taken["numbers"]
    assert isinstance(texts, ColumnRows)
    assert isinstance(numbers, ColumnRows)
    assert texts.rows is numbers.rows
    assert texts.column is TEXTS
