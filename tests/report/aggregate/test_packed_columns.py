"""Columns of figures are the same when they have been packed, and take few bytes."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.packed_columns import pack_column, unpack_column
from kdissect.tables.coded_text import CodedText, NumberColumn, null_column
from kdissect.tables.column import BOOL, INT16, INT64, TEXT

LOW, HIGH = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize("far", [0, 1, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32])
@pytest.mark.parametrize("lowest", [0, -7, 1_700_000_000 * 10**9, LOW])
@pytest.mark.parametrize("absent", [(), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("times", [1, 3000])
def test_whole_numbers_are_the_same_in_fewer_bytes(lowest, far, absent, times) -> None:
    present = np.tile(~np.isin(np.arange(3), absent), times)
    values = np.tile([lowest, lowest + far, lowest + far // 2], times) * present
    field, packed = pack_column("number", NumberColumn(values, present, INT64))
    assert packed.type.bit_width <= 8 * max(1, (far.bit_length() + 7) // 8) or far >= 1 << 16
    found = unpack_column(packed, field, INT64)
    assert isinstance(found, NumberColumn)
    assert (found.values == values).all()
    assert (found.present == present).all()
    assert found.kind == INT64


def test_the_whole_range_needs_all_bytes() -> None:
    values = np.array([LOW, HIGH, 0])
    field, packed = pack_column("number", NumberColumn(values, np.ones(3, bool), INT64))
    found = unpack_column(packed, field, INT64)
    assert packed.type == INT64
    assert found.tolist() == values.tolist()


def test_texts_become_codes_of_a_byte() -> None:
    column = CodedText(np.array([1, -1, 0, 1]), pa.array(["a", "b"]))
    field, packed = pack_column("text", column)
    assert packed.type == pa.dictionary(pa.uint8(), TEXT)
    assert unpack_column(packed, field, TEXT).tolist() == ["b", None, "a", "b"]
    many = CodedText(np.arange(300), pa.array([str(number) for number in range(300)]))
    field, packed = pack_column("text", many)
    assert packed.type == pa.dictionary(pa.uint16(), TEXT)
    assert unpack_column(packed, field, TEXT).tolist() == many.tolist()


def test_flags_and_columns_without_rows() -> None:
    flags = NumberColumn(np.array([1, 0, 0]), np.array([True, True, False]), BOOL)
    for column in (flags, np.array([True, False, False])):
        field, packed = pack_column("flag", column)
        last = None if column is flags else False
        assert unpack_column(packed, field, BOOL).tolist() == [True, False, last]
    for kind in (TEXT, INT16):
        field, packed = pack_column("none", null_column(0, kind))
        assert unpack_column(packed, field, kind).tolist() == []


def test_columns_of_arrow_that_are_not_packed() -> None:
    for values, kind in (([5, None], INT16), (["a", None], TEXT), ([True, None], BOOL)):
        chunks = pa.chunked_array([pa.array(values, kind), pa.array([], kind)])
        assert unpack_column(chunks, pa.field("plain", kind), kind).tolist() == values
