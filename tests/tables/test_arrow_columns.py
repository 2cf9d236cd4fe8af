"""Spans of bytes and numbers as Arrow columns: text, ids, names, and what is absent."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.jit.many_rows import MANY_ROWS
from kdissect.tables.arrow_columns import (
    escape_csv_batch,
    int_column,
    is_ascii,
    name_column,
    text_column,
    uuid_column,
)
from kdissect.text import escape_cell, format_uuid


def test_text_is_gathered_and_null_where_absent() -> None:
    arena = np.frombuffer("orders·audit".encode(), np.uint8)
    found = text_column(arena, np.array([0, -1, 8, 3]), np.array([6, 0, 5, 0]))
    assert found.type == pa.string()
    assert found.to_pylist() == ["orders", None, "audit", ""]


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    arena = np.frombuffer(b"good\xff\xfebad", np.uint8)
    assert text_column(arena, np.array([0, 4]), np.array([4, 5])).to_pylist() == ["good", "\ufffd\ufffdbad"]


def test_ids_are_written_as_kafka_prints_them() -> None:
    raw = random.Random(1).randbytes(48) + bytes(16)
    arena = np.frombuffer(raw, np.uint8)
    expected = [format_uuid(raw[start : start + 16]) for start in (0, 16, 7)]
    assert uuid_column(arena, np.array([0, 16, 7, -1, 48])).to_pylist() == [*expected, None, None]


def test_numbers_and_names() -> None:
    values, present = np.array([1, 2, 3]), np.array([True, False, True])
    assert int_column(values, present, pa.int16()).to_pylist() == [1, None, 3]
    assert name_column({1: "one", 3: "three"}, np.array([3, 2, 1])).to_pylist() == ["three", None, "one"]
    assert name_column({1: "one"}, np.array([1, 1]), np.array([False, True])).to_pylist() == [None, "one"]
    assert name_column({}, np.array([1])).to_pylist() == [None]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("share", [0, 0.3, 1])
@pytest.mark.parametrize("rows", [MANY_ROWS, MANY_ROWS + 5])
def test_many_numbers_are_those_of_few(kind: pa.DataType, share: float, rows: int) -> None:
    chance = np.random.default_rng(rows)
    high = 1 << (kind.bit_width - 1)
    values = chance.integers(-high, high - 1, rows, endpoint=True)
    present = chance.random(rows) < share
    column = int_column(values, present, kind)
    column.validate(full=True)
    few = [int_column(values[at : at + 100], present[at : at + 100], kind) for at in range(0, rows, 100)]
    assert column.equals(pa.concat_arrays(few))
    assert column.null_count == rows - present.sum()
    assert int_column(values[::2], present[::2], kind).equals(column.take(pa.array(np.arange(0, rows, 2))))


@given(st.lists(st.one_of(st.none(), st.text(), st.sampled_from(["=1", "@x", "\r\n", "-"]))))
def test_cells_of_a_batch_are_escaped_like_single_ones(texts):
    batch = pa.record_batch(
        {"name": pa.array(texts, pa.string()), "offset": pa.array([-1] * len(texts), pa.int64())}
    )
    escaped = escape_csv_batch(batch)
    assert escaped["name"].to_pylist() == [None if text is None else escape_cell(text) for text in texts]
    assert escaped["offset"].equals(batch["offset"])
    assert escaped.schema == batch.schema


@pytest.mark.parametrize(
    ("texts", "expected"),
    [([], True), (["a", "b"], True), (["a", None], False), (["a", "\u00e9"], False), ([""], True)],
)
def test_ascii_is_told_from_other_texts_and_null(texts: list[str | None], expected: bool) -> None:
    assert is_ascii(pa.array(texts, pa.string())) == expected
