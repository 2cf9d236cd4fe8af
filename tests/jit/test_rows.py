"""Rows of named integers: compiled loops and plain Python read and write the same memory."""

import os
import subprocess
import sys

import numpy as np
import pytest

from kdissect.jit.decorators import jit_flat, jit_inner
from kdissect.jit.rows import (
    COMPILED,
    Row,
    RowTable,
    array_of,
    dtype_of,
    grown_table,
    join_records,
    new_table,
    row_size,
    row_type,
    rows_of,
    take_records,
)


@row_type
class Span(Row):
    start: int
    stop: int


@row_type
class Pair(Row):
    first: Span
    second: Span
    total: int


@jit_inner
def widen(span: Span, by: int) -> int:
    span.stop += by
    return span.stop - span.start


@jit_flat
def fill(pairs: RowTable[Pair], counters: Span) -> None:
    for index in range(len(pairs)):
        pair = pairs[index]
        pair.first.start = index
        pair.first.stop = 2 * index
        pair.second = pair.first
        pair.total = widen(pair.second, 10)
        counters.stop += 1
    pairs[0] = pairs[len(pairs) - 1]


def test_a_kernel_writes_fields_nested_rows_and_whole_rows() -> None:
    pairs, counters = new_table(Pair, 3), new_table(Span, 1)
    fill(pairs, counters[0])
    filled = [((0, 0), (0, 10), 10), ((1, 2), (1, 12), 11), ((2, 4), (2, 14), 12)]
    assert array_of(pairs).tolist() == [filled[2], *filled[1:]]
    assert array_of(counters).tolist() == [(0, 3)]


def test_columns_and_rows_are_the_same_memory() -> None:
    pairs = new_table(Pair, 2)
    array_of(pairs)["first"]["stop"][:] = 7
    assert pairs[1].first.stop == 7
    pairs[1].total = 5
    assert array_of(pairs)["total"].tolist() == [0, 5]


def test_a_grown_table_begins_with_the_rows_of_the_smaller_one() -> None:
    spans = new_table(Span, 2)
    spans[1].stop = 9
    grown = grown_table(Span, spans, 4)
    assert array_of(grown).tolist() == [(0, 0), (0, 9), (0, 0), (0, 0)]
    grown[1].stop = 1
    assert spans[1].stop == 9
    assert len(grown_table(Span, new_table(Span, 0), 1)) == 1


def test_rows_of_an_array_are_read_one_by_one() -> None:
    array = np.zeros(3, dtype_of(Pair))
    array["second"]["stop"] = [4, 5, 6]
    assert [row.second.stop for row in rows_of(Pair, array)] == [4, 5, 6]
    assert rows_of(Pair, array[:0]) == []


def test_a_row_takes_eight_bytes_a_field() -> None:
    assert row_size(Pair) == dtype_of(Pair).itemsize == 40


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="starts the other kind of run")
def test_plain_python_does_the_same() -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        run, env=os.environ | {"KDISSECT_JIT": "0"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed, 1 skipped" in done.stdout


def test_records_are_taken_and_joined_as_numpy_would() -> None:
    rows = np.zeros(4, np.dtype([("a", np.int64), ("b", np.int64)]))
    rows["a"], rows["b"] = np.arange(4), 7 - np.arange(4)
    order = np.array([3, 0, 3])
    assert take_records(rows, order).tolist() == rows[order].tolist()
    assert join_records([rows, rows[:0], rows[1:2]]).tolist() == [*rows.tolist(), rows[1].tolist()]
    assert join_records([rows[:0]]).dtype == rows.dtype
    copy = join_records([rows])
    copy["a"] = 9
    assert rows["a"].tolist() == [0, 1, 2, 3]
