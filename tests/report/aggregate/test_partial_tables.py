"""How rows of a partial become one, and that every table has one row for each key."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.partial_tables import PARTIAL_TABLES, PartialTable, roll_up
from kdissect.report.partials import (
    summarise,
)
from kdissect.tables.column import INT64, TEXT
from tests.helpers import synthetic_tables as synthetic


def test_parts_have_one_row_per_key():
    partial = summarise(synthetic.tables(np.random.default_rng(4), 3000))
    for name, part in PARTIAL_TABLES.items():
        keys = partial.table(part).select([key for key, _ in part.keys])
        assert keys.group_by(keys.column_names).aggregate([]).num_rows == keys.num_rows, name
        assert keys.num_rows, name


TALLY = PartialTable(
    "tally",
    keys=(("who", TEXT),),
    sums=("count",),
    lowest=("first",),
    highest=("last",),
    order=("at", "packet"),
    first=(("at", INT64), ("packet", INT64)),
)


def rolled(*rows):
    names = TALLY.schema.names
    return roll_up(
        TALLY, pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)), TALLY.schema)
    ).to_pylist()


def test_the_schema_has_keys_sums_lowest_highest_and_first():
    assert TALLY.schema.names == ["who", "count", "first", "last", "at", "packet"]


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


@pytest.mark.parametrize("part", PARTIAL_TABLES.values(), ids=PARTIAL_TABLES)
def test_what_decides_the_first_row_is_in_the_table(part):
    names = part.schema.names
    assert len(names) == len(set(names))
    assert set(part.order) <= set(names)
    assert not part.first or part.order
