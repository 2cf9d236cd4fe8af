"""Rows of columns that are taken later: the same values as if they were taken at once."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.coded_text import CodedText
from kdissect.report.aggregate.column_rows import ColumnRows, PlainColumn, plain_column, take_rows

TEXTS = CodedText(np.array([0, 1, -1, 0]), pa.array(["a", "b"]))
ROWS, AGAIN = np.array([3, 2, 1, 1]), np.array([2, 0])


def values(column: PlainColumn) -> list[object]:
    """Return the values of a column."""
    return list((column.arrow() if isinstance(column, CodedText) else column).tolist())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array([10, 11, 12, 13]), [13, 12, 11, 11]),
        (np.array([True, False, False, True]), [True, False, False, False]),
        (pa.array([1, None, 3, 4]), [4, 3, None, None]),
        (TEXTS, ["a", None, "b", "b"]),
    ],
)
def test_rows_are_those_of_the_column(column: PlainColumn, expected: list[object]) -> None:
    later = ColumnRows(column, ROWS)
    assert len(later) == len(ROWS)
    assert values(plain_column(later)) == expected == values(take_rows(column, ROWS))
    assert values(take_rows(later, AGAIN)) == [expected[2], expected[0]]
    assert plain_column(column) is column


def test_a_row_of_nothing_is_null_in_texts() -> None:
    assert values(plain_column(ColumnRows(TEXTS, np.array([-1, 0])))) == [None, "a"]
