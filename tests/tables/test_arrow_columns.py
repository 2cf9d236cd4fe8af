"""Spans of bytes as Arrow columns: text, ids, and what is not there."""

import base64
import random

import numpy as np
import pyarrow as pa

from kdissect.tables.arrow_columns import (
    int_column,
    name_column,
    text_column,
    uuid_column,
)


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
    expected = [base64.urlsafe_b64encode(raw[at : at + 16]).decode().rstrip("=") for at in (0, 16, 7)]
    assert uuid_column(arena, np.array([0, 16, 7, -1, 48])).to_pylist() == [*expected, None, None]


def test_numbers_and_names() -> None:
    values, present = np.array([1, 2, 3]), np.array([True, False, True])
    assert int_column(values, present, pa.int16()).to_pylist() == [1, None, 3]
    assert name_column({1: "one", 3: "three"}, np.array([3, 2, 1])).to_pylist() == ["three", None, "one"]
    assert name_column({1: "one"}, np.array([1, 1]), np.array([False, True])).to_pylist() == [None, "one"]
    assert name_column({}, np.array([1])).to_pylist() == [None]
