"""Texts as numbers: what comes out is what a plain column of texts would give."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.tables.coded_text import NumberColumn, code_text, null_column, repeat_text

TEXTS = ["b", None, "a", "b", "", "é", None]


@pytest.mark.parametrize(
    "column", [pa.array(TEXTS), pa.array(TEXTS).dictionary_encode(), pa.array([], pa.string())]
)
def test_texts_come_back(column: pa.Array) -> None:
    assert code_text(column).arrow().to_pylist() == column.to_pylist()


def test_rows_are_taken_and_row_minus_one_is_null() -> None:
    taken = code_text(pa.array(TEXTS)).take(np.array([2, -1, 0, 1]))
    assert taken.arrow().to_pylist() == ["a", None, "b", None]
    assert code_text(pa.array([], pa.string())).take(np.array([-1])).arrow().to_pylist() == [None]


def test_ranks_are_the_order_of_the_alphabet_with_null_last() -> None:
    order = np.argsort(code_text(pa.array(TEXTS)).ranks(), kind="stable")
    sorted_by_arrow = pa.table({"text": TEXTS}).sort_by("text")
    assert [TEXTS[row] for row in order] == sorted_by_arrow["text"].to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.int16(), pa.int64(), pa.bool_()])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_all_rows_of_a_column_can_be_null(count: int, kind: pa.DataType) -> None:
    assert null_column(count, kind).arrow().equals(pa.nulls(count, kind))


def test_a_repeated_text_is_in_every_row() -> None:
    assert repeat_text("x", 3).arrow().to_pylist() == ["x"] * 3


def test_a_text_is_found_in_a_column_of_texts_or_of_codes() -> None:
    for column in (pa.array(TEXTS), pa.array(TEXTS).dictionary_encode()):
        columns = TableColumns(pa.table({"name": column}))
        assert columns.equals("name", "b").tolist() == [text == "b" for text in TEXTS]
        assert not columns.equals("name", "c").any()
        assert columns.text("name").number_of("c") == -2


def test_values_as_python_has_them_are_those_of_arrow() -> None:
    texts = code_text(pa.array(TEXTS))
    assert texts.tolist() == texts.arrow().to_pylist() == TEXTS
    present = np.array([True, False, True])
    for kind in (pa.int16(), pa.int64(), pa.bool_()):
        for known in (present, present | True):
            column = NumberColumn(np.array([0, 0, 1]), known, kind)
            assert list(map(repr, column.tolist())) == list(map(repr, column.arrow().to_pylist()))


def test_texts_are_numbered_in_the_order_in_which_rows_have_them() -> None:
    for rows in ([6, 3, 0, 5], [], [1, 6], [4, 4, 2]):
        coded = code_text(pa.array(TEXTS)).take(np.array(rows, np.int64)).by_appearance()
        wanted = code_text(pa.array([TEXTS[row] for row in rows], pa.string()))
        assert coded.numbers.tolist() == wanted.numbers.tolist()
        assert coded.texts.to_pylist() == wanted.texts.to_pylist()
