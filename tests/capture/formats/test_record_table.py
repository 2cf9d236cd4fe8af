"""The helpers of record kernels against `struct` and Python integers."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats.record_reader import ReadOutcome
from kdissect.capture.formats.record_table import (
    LINK_TYPE,
    RECORD_COLUMNS,
    START,
    WALK_FIELDS,
    folded,
    u8,
    u16,
    u32,
    within_range,
)
from kdissect.capture.index.splits import LATEST_NS
from kdissect.jit.decorators import jit_flat


@jit_flat
def read_numbers(data: Bytes, at: int, big_endian: bool, out: Int64s) -> None:
    """Call the readers, which only kernels may call."""
    out[0], out[1], out[2] = u8(data, at), u16(data, at, big_endian), u32(data, at, big_endian)


@jit_flat
def fold_all(values: Int64s, salt: int, out: Int64s) -> None:
    for i in range(len(values)):
        out[i] = folded(values[i], salt)


@jit_flat
def limit_all(values: Int64s, out: Int64s) -> None:
    for i in range(len(values)):
        out[i] = within_range(values[i])


def fold(values: list[int], salt: int) -> list[int]:
    out = np.empty(len(values), np.int64)
    fold_all(np.array(values, np.int64), salt, out)
    return [int(value) for value in out]


@given(st.binary(max_size=20), st.binary(min_size=4, max_size=4), st.booleans())
@pytest.mark.slow
def test_numbers_are_those_of_struct(before: bytes, number: bytes, big_endian: bool) -> None:
    out = np.empty(3, np.int64)
    read_numbers(np.frombuffer(before + number + b"\xff", np.uint8), len(before), big_endian, out)
    order = ">" if big_endian else "<"
    (long,) = struct.unpack(order + "I", number)
    (short,) = struct.unpack(order + "H", number[:2])
    assert out.tolist() == [number[0], short, long]


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=50), st.integers(0, 255))
@pytest.mark.slow
def test_folded_is_the_mixing_of_integers_without_overflow(values: list[int], salt: int) -> None:
    expected = []
    for value in values:
        product = (value ^ salt << 24) % 2**32 * 0x5851F42D
        assert product < 2**63
        expected.append((product ^ product >> 29) % 2**32)
    assert fold(values, salt) == expected


def test_two_folds_spread_numbers_that_follow_each_other() -> None:
    """Callers fold several numbers, one into the next, and use the low bits of the last result."""
    buckets, numbers = 1 << 11, 1 << 14
    for step in (1, 4, 1460, 1 << 16):
        for salt in (0, 1, 255):
            once = fold([step * number for number in range(numbers)], salt)
            twice = fold(once, 1)
            assert len(set(once)) == len(set(twice)) == numbers
            share = np.bincount(np.array(twice) % buckets, minlength=buckets)
            assert share.max() <= 4 * numbers // buckets


def test_folded_depends_on_the_salt() -> None:
    values = list(range(1000))
    assert not set(fold(values, 0)) & set(fold(values, 1))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
@pytest.mark.slow
def test_times_within_range_have_differences_of_64_bits(times: list[int]) -> None:
    limited = np.empty(len(times), np.int64)
    limit_all(np.array(times, np.int64), limited)
    assert limited.tolist() == [min(max(time_ns, 0), LATEST_NS) for time_ns in times]
    assert LATEST_NS + LATEST_NS < 2**63


def test_columns_and_outcomes_are_numbered_without_gaps() -> None:
    assert (START, LINK_TYPE, RECORD_COLUMNS, WALK_FIELDS) == (0, 6, 7, 4)
    assert [outcome.value for outcome in ReadOutcome] == list(range(len(ReadOutcome)))
