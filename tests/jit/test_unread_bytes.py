"""Bytes in a file come to their places in an array, whole rows once, and parts of rows each time."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kdissect.array_types import Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.unread_bytes import (
    DESCRIPTOR,
    NOTHING_UNREAD,
    READ,
    SHORTER,
    first_row,
    is_all_there,
    is_shorter,
    read_bytes,
    read_rows,
)

FILE = bytes(range(100))


@jit_flat
def find(unread, offset):
    return first_row(unread, offset)


@jit_flat
def rows_read(unread, array, begin, end):
    return read_rows(unread, array, begin, end)


@jit_flat
def some_read(unread, array, begin, end):
    read_bytes(unread, array, begin, end)


@jit_flat
def all_there(unread, begin, end):
    return is_all_there(unread, begin, end)


@pytest.fixture
def unread(tmp_path: Path) -> Iterator[Int64s]:
    """Return array[10:20] and array[20:25] at 50 and 0 of a file, and array[40:60] that it ends within."""
    (tmp_path / "file").write_bytes(FILE)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    rows = [(10, 20, 50, descriptor), (20, 25, 0, descriptor), (40, 60, 90, descriptor)]
    yield np.array(rows, np.int64)
    os.close(descriptor)


def test_rows_are_found_by_their_ends(unread: Int64s) -> None:
    found = [find(unread, offset) for offset in (0, 10, 19, 20, 24, 25, 59, 60, 99)]
    assert found == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert find(NOTHING_UNREAD, 5) == 0


def test_a_row_is_read_once_and_as_a_whole(unread: Int64s) -> None:
    array = np.zeros(99, np.uint8)
    assert rows_read(unread, array, 0, 10) == 0
    assert rows_read(unread, array, 19, 20) == 1
    assert array[10:20].tobytes() == FILE[50:60]
    assert array.sum() == sum(FILE[50:60])
    assert unread[:, DESCRIPTOR].tolist()[0] == READ
    assert rows_read(unread, array, 0, 21) == 1
    assert array[20:25].tobytes() == FILE[:5]
    assert (unread[:, DESCRIPTOR] == READ).tolist() == [True, True, False]


def test_parts_are_read_and_nothing_else(unread: Int64s) -> None:
    array = np.full(99, 255, np.uint8)
    some_read(unread, array, 15, 22)
    assert array[15:20].tobytes() + array[20:22].tobytes() == FILE[55:60] + FILE[:2]
    assert (array[:15] == 255).all()
    assert (array[22:] == 255).all()
    assert (unread[:, DESCRIPTOR] != READ).all()
    array[:] = 255
    some_read(unread, array, 15, 22)
    assert array[15] == FILE[55]


def test_a_row_that_was_read_stays_as_it_is(unread: Int64s) -> None:
    array = np.zeros(99, np.uint8)
    rows_read(unread, array, 0, 30)
    array[:] = 7
    some_read(unread, array, 0, 30)
    assert (array == 7).all()
    assert all_there(unread, 0, 40)
    assert not all_there(unread, 0, 41)


def test_a_file_that_ends_too_early_is_noted(unread: Int64s) -> None:
    array = np.zeros(99, np.uint8)
    some_read(unread, array, 40, 50)
    assert not is_shorter(unread)
    some_read(unread, array, 45, 51)
    assert unread[2, DESCRIPTOR] == SHORTER
    assert is_shorter(unread)
    assert rows_read(unread, array, 0, 99) == 2
    assert all_there(unread, 0, 99)
