"""Batches of arrays: the same rows as Arrow has, joined, filtered and taken."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from kdissect.tables.array_batch import (
    ArrayBatch,
    ArrayColumn,
    LateColumns,
    array_batch,
    join_batches,
    list_column,
    lists_at,
    masked_rows,
    named_column,
    number_column,
    numbers_at,
    numbers_of,
    table_row,
)

SCHEMA = pa.schema([("number", pa.int16()), ("text", pa.string()), ("flag", pa.bool_())])
ROWS = pa.record_batch(
    [
        pa.array([1, None, -3, 4, None], pa.int16()),
        pa.array(["b", "a", None, "b", "c"]),
        pa.array([True, False, False, True, True]),
    ],
    schema=SCHEMA,
)


def columns(batch: ArrayBatch | pa.RecordBatch) -> list[list[object]]:
    """Return the values of all columns."""
    return [batch[name].to_pylist() for name in SCHEMA.names]


@pytest.mark.parametrize("cuts", [[0, 5], [0, 2, 5], [0, 1, 1, 3, 5]])
def test_joined_batches_are_those_of_arrow(cuts: list[int]) -> None:
    """Parts have dictionaries of their own: other texts, in another order."""
    parts = [array_batch(ROWS.slice(start, stop - start), SCHEMA) for start, stop in pairwise(cuts)]
    joined = join_batches(parts)
    assert joined.num_rows == ROWS.num_rows
    assert columns(joined) == columns(ROWS)


def test_rows_are_taken_and_filtered() -> None:
    batch = array_batch(ROWS, SCHEMA)
    rows = pa.array([4, 0, 2])
    assert batch.take(rows).equals(ROWS.take(rows))
    assert batch.slice(1, 3).equals(ROWS.slice(1, 3))
    mask = pa.array([True, False, False, True, True])
    assert columns(batch.filter(mask)) == columns(ROWS.filter(mask))
    names = ["flag", "number"]
    assert batch.select(names).take(rows).equals(ROWS.select(names).take(rows))


@pytest.mark.parametrize("rows", [5, 5000])
def test_numbers_that_are_not_present_are_zero(rows: int) -> None:
    values, present = np.arange(rows)[::-1], np.arange(rows) % 3 > 0
    column = number_column(values, present, pa.int32())
    assert column.values.tolist() == np.where(present, values, 0).tolist()
    assert column.present.tolist() == present.tolist()
    assert not np.shares_memory(column.values, values)


def test_columns_that_nobody_asks_for_are_not_made() -> None:
    whole = array_batch(ROWS, SCHEMA)
    made: list[str] = []
    late = ArrayBatch(LateColumns(lambda name: made.append(name) or whole.parts[name]), SCHEMA, ROWS.num_rows)
    some = late.choose(np.array([4, 0]))
    assert not made
    assert some["text"].to_pylist() == ["c", "b"]
    assert some.select(["text"]).to_pylist() == [{"text": "c"}, {"text": "b"}]
    assert made == ["text"]
    assert late.to_pylist() == ROWS.to_pylist()


def test_columns_that_are_read_once_are_not_kept() -> None:
    whole = array_batch(ROWS, SCHEMA)
    sources, made = dict.fromkeys(SCHEMA.names), list[str]()

    def make(name: str) -> list[ArrayColumn]:
        made.append(name)
        return [whole.column(name).take(np.arange(at, at + 1)) for at in range(ROWS.num_rows)]

    batch = ArrayBatch(LateColumns(make, sources), SCHEMA, ROWS.num_rows)
    few = batch.choose_few(np.array([4, 0]))
    assert few["text"].to_pylist() == ["c", "b"]
    assert list_column(batch.unkept("text")) == ROWS["text"].to_pylist()
    assert (made, list(batch.parts), list(sources)) == (["text"] * 2, [], list(SCHEMA.names))
    kept = batch.column("text")
    assert batch.unkept("text") is kept
    assert list_column(kept) == ROWS["text"].to_pylist()
    assert (len(made), "text" in sources) == (3, False)


def test_columns_that_cannot_be_made_again_are_kept() -> None:
    whole = array_batch(ROWS, SCHEMA)
    late = whole.choose(np.arange(2))
    assert late.unkept("text") is late.column("text")
    assert whole.unkept("text") is whole.column("text")


def test_a_row_of_arrays_is_that_of_arrow() -> None:
    for table in (ROWS, array_batch(ROWS, SCHEMA)):
        for row in range(ROWS.num_rows):
            assert table_row(table, ["text", "flag", "number"], row) == ROWS.slice(row, 1).to_pylist()[0]
        taken = numbers_at(table, "number", np.array([2, 1, -1]))
        assert (taken.values.tolist(), taken.present.tolist()) == ([-3, 0, 0], [True, False, False])


def test_tables_of_both_kinds_have_the_same_columns_and_masked_rows() -> None:
    batch = array_batch(ROWS, SCHEMA)
    for name in SCHEMA.names:
        assert list_column(named_column(ROWS, name)) == list_column(named_column(batch, name))
    assert (
        numbers_of(batch, "number").tolist() == numbers_of(ROWS, "number").tolist() == [1, None, -3, 4, None]
    )
    mask = np.array([True, False, False, True, True])
    assert (
        columns(masked_rows(batch, mask))
        == columns(masked_rows(ROWS, mask))
        == columns(ROWS.filter(pa.array(mask)))
    )
    everything = np.ones(5, bool)
    assert masked_rows(batch, everything) is batch
    assert masked_rows(ROWS, everything) is ROWS


def test_columns_at_some_rows_are_those_of_arrow() -> None:
    for table in (ROWS, array_batch(ROWS, SCHEMA)):
        for rows in ([], [4], [3, 0, 0]):
            taken = lists_at(table, ["text", "number"], np.array(rows, np.int64))
            assert taken == [
                ROWS[name].take(pa.array(rows, pa.int64())).to_pylist() for name in ("text", "number")
            ]
