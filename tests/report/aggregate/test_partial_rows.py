"""Rows of a table meet, are ordered, and become one for each key."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.column_rows import AnyColumn, ColumnRows, plain_column
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_rows import (
    array_rows,
    join_rows,
    no_rows,
    order_rows,
    packed_rows,
    part_table,
    plain_rows,
    roll_up,
    roll_up_columns,
    sort_rows,
)
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.tables.coded_text import CodedText, NumberColumn
from kdissect.tables.column import BOOL, INT32, INT64, TEXT
from tests.helpers.tally import TALLY


def rolled(*rows):
    names = TALLY.schema.names
    return roll_up(
        TALLY, pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)), TALLY.schema)
    ).to_pylist()


def test_no_rows_join_to_no_rows_and_change_nothing() -> None:
    none = no_rows(TALLY)
    assert plain_rows(TALLY, none).equals(TALLY.schema.empty_table())
    assert not join_rows(TALLY, []).num_rows
    assert not join_rows(TALLY, [none, none]).num_rows
    one = roll_up(TALLY, pa.table({name: [None] for name in TALLY.schema.names}, TALLY.schema))
    assert plain_rows(TALLY, join_rows(TALLY, [none, one, none])).equals(plain_rows(TALLY, one))


def test_rows_of_arrow_and_of_arrays_meet() -> None:
    """Codes of two tables differ, and each table has the texts of its own rows, or few others."""
    names = TALLY.schema.names
    plain = pa.table(
        dict(zip(names, [["b", None], [1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], strict=True)), TALLY.schema
    )
    coded = roll_up(TALLY, pa.table(dict(zip(names, [["a", "b"], *[[1, 1]] * 5], strict=True)), TALLY.schema))
    together = roll_up(
        TALLY, join_rows(TALLY, [plain, coded, packed_rows(TALLY, coded), plain_rows(TALLY, coded)])
    )
    sums = together.select(["who", "count"]).to_pylist()
    assert sorted(map(tuple, (row.values() for row in sums)), key=str) == [("a", 3), ("b", 4), (None, 2)]


def test_only_columns_that_are_read_twice_are_unpacked_for_good() -> None:
    columns = dict(zip(TALLY.schema.names, [["b", None, "b"], *[[1, 2, 3]] * 5], strict=True))
    rows = join_rows(TALLY, [packed_rows(TALLY, array_rows(TALLY, pa.table(columns, TALLY.schema)))])
    assert roll_up(TALLY, rows).num_rows == 2
    assert set(rows.parts) == {name for name, _ in TALLY.keys} | {*TALLY.order}


def test_a_table_keeps_few_texts_that_its_rows_do_not_have() -> None:
    texts = CodedText(np.array([2]), pa.array([str(number) for number in range(100)]))
    columns: dict[str, AnyColumn] = {name: np.array([0]) for name in TALLY.schema.names} | {"who": texts}
    who = part_table(TALLY, columns).column("who")
    assert isinstance(who, CodedText)
    assert who.texts.to_pylist() == ["2"]


def test_flags_may_be_null() -> None:
    part = PartialTable("flags", keys=(("flag", BOOL),), sums=("count",))
    table = pa.table({"flag": [True, None, False, True, None], "count": [1] * 5}, part.schema)
    rows = roll_up(part, table)
    assert sorted(map(str, rows.to_pylist())) == sorted(
        str({"flag": flag, "count": count}) for flag, count in ((True, 2), (None, 2), (False, 1))
    )
    assert plain_rows(part, rows).schema == part.schema
    assert plain_rows(part, packed_rows(part, rows)).equals(plain_rows(part, rows))


def test_rows_of_one_key_become_one():
    (row,) = rolled(("a", 2, 7, 1, 50, 3), ("a", 3, 5, None, 40, 9))
    assert row == {"who": "a", "count": 5, "first": 5, "last": 1, "at": 40, "packet": 9}


def test_ties_are_broken_by_the_next_column_and_nulls_come_last():
    (row,) = rolled(("a", 1, 0, 0, 40, 9), ("a", 1, 0, 0, 40, 3), ("a", 1, 0, 0, None, 1))
    assert (row["at"], row["packet"]) == (40, 3)


def test_null_is_a_key_of_its_own():
    rows = rolled((None, 1, 0, 0, 0, 0), ("", 1, 0, 0, 0, 0), (None, 1, 0, 0, 0, 0))
    assert {(row["who"], row["count"]) for row in rows} == {(None, 2), ("", 1)}


def test_lowest_and_highest_of_nothing_are_null():
    (row,) = rolled(("a", 1, None, None, 0, 0), ("a", 1, None, None, 0, 0))
    assert (row["first"], row["last"]) == (None, None)


@pytest.mark.parametrize("rows", [0, 1, 3, 40])
@pytest.mark.parametrize("absent", [False, True])
def test_rows_of_few_are_grouped_like_all_of_them(rows: int, absent: bool) -> None:
    """Two columns share their rows, and a third one is as long as the table."""
    rng = np.random.default_rng(rows)
    few = rng.integers(-1 if absent else 0, 5, rows)
    shared: dict[str, AnyColumn] = {
        "who": ColumnRows(CodedText(np.array([0, 1, -1, 0, 1]), pa.array(["a", "b"])), few),
        "port": ColumnRows(NumberColumn(np.array([1, 1, 0, 2, 1]), np.arange(5) != 2, INT32), few),
        "step": rng.integers(0, 2, rows),
        "count": np.ones(rows, np.int64),
    }
    part = PartialTable("shared", keys=(("who", TEXT), ("port", INT32), ("step", INT64)), sums=("count",))
    found = [
        plain_rows(part, roll_up_columns(part, columns, rows)).sort_by(
            [(name, "ascending") for name in shared]
        )
        for columns in (shared, {name: plain_column(column) for name, column in shared.items()})
    ]
    assert found[0].equals(found[1])
    assert sum(found[0]["count"].to_pylist()) == rows


def test_rows_are_sorted_by_their_keys_as_arrow_sorts_them():
    part = PartialTable("sorted", keys=(("text", TEXT), ("number", INT64), ("flag", BOOL)), sums=("count",))
    values = {
        "text": ["b", None, "a", "b", "b"],
        "number": [2, 1, 7, None, 2],
        "flag": [True, None, None, True, False],
    }
    table = pa.table(values | {"count": [*range(5)]}, part.schema)
    wanted = table.sort_by([(name, "ascending") for name, _ in part.keys])
    assert sort_rows(part, TableColumns(array_rows(part, table))).dicts() == wanted.to_pylist()
    assert sort_rows(part, TableColumns(array_rows(part, table.slice(0, 0)))).dicts() == []
    ordered = order_rows(part, table)
    assert ordered.to_pylist() == wanted.to_pylist()
    columns = TableColumns(ordered)
    assert sort_rows(part, columns) is columns
