"""Columns of Arrow as arrays: chunks, offsets, nulls with any value below them, and codes."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.tables.coded_text import code_text
from kdissect.tables.column_values import (
    SHARED_ROWS,
    code_values,
    combine_chunks,
    every_row,
    int_values,
    run_starts,
    valid_mask,
)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4096, SHARED_ROWS - 1, SHARED_ROWS, SHARED_ROWS + 1])
def test_every_row_is_in_the_mask_and_nobody_can_take_one_out(count):
    mask = every_row(count)
    assert mask.dtype == bool
    assert len(mask) == count
    assert mask.all()
    with pytest.raises(ValueError, match="read-only"):
        mask[:] = False


def with_values_below_nulls(kind, values, present):
    bits = pa.array(present).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [bits, pa.array(values, kind).buffers()[1]])


@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.int64()])
def test_chunks_of_all_kinds_become_one_array(kind):
    mixed = with_values_below_nulls(kind, [7, -9, 99, 4, 5], [True, False, False, True, True])
    plain, nulls, none = pa.array([1, -2], kind), pa.nulls(3, kind), pa.array([], kind)
    for chunks in (
        [mixed],
        [plain],
        [nulls],
        [plain, none, mixed.slice(1), nulls, mixed, plain.slice(1)],
        [],
    ):
        column = pa.chunked_array(chunks, kind)
        expected = column.to_pylist()
        present = valid_mask(column)
        assert present.tolist() == [value is not None for value in expected]
        values = int_values(column, present)
        assert values.dtype == np.int64
        assert values.tolist() == [value or 0 for value in expected]
        assert int_values(combine_chunks(column), present).tolist() == values.tolist()


def test_codes_are_minus_one_for_null():
    chunks = [with_values_below_nulls(pa.int32(), [3, 8, 0], [True, False, True]), pa.array([2], pa.int32())]
    assert code_values(chunks, valid_mask(pa.chunked_array(chunks))).tolist() == [3, -1, 0, 2]


def test_equal_codes_are_equal_texts_whatever_each_chunk_knows():
    batches = [["a", None, "b"], ["b", "c"], [], ["a", "b"]]
    same = [pa.array(["a", "b", "a"]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()]
    for chunks in ([pa.array(texts, pa.string()).dictionary_encode() for texts in batches], same):
        column = pa.chunked_array(chunks)
        coded = code_text(column)
        assert coded.arrow().to_pylist() == column.to_pylist()
        assert len(set(coded.texts.to_pylist())) == len(coded.texts)


def test_a_run_begins_with_another_value():
    assert run_starts(np.array([3, 3, 1, 1, 1, 3])).tolist() == [0, 2, 5]
    assert run_starts(np.array([True])).tolist() == [0]
    assert run_starts(np.zeros(0, np.int64)).tolist() == []
