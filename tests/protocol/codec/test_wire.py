"""Varints and identifiers: the primitives that everything flexible is made of."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.protocol.codec.wire import (
    COMPACT_LENGTH,
    FIXED,
    INT16_LENGTH,
    INT32_LENGTH,
    SIZED,
    VARINT_LIMIT,
    DecodeError,
    read_uvarint,
    write_uvarint,
)
from kdissect.protocol.schema.definition import PRIMITIVES

VARINTS = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16_383, "ff7f"),
    (16_384, "808001"),
    (2**31, "8080808008"),
    (VARINT_LIMIT, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "text"), VARINTS)
def test_varints(value: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert read_uvarint(data, 0, len(data)) == (value, len(data))
    assert read_uvarint(b"?" + data + b"?", 1, len(data) + 1) == (value, len(data) + 1)
    out = bytearray()
    write_uvarint(out, value)
    assert out == data
    for stop in range(len(data)):
        with pytest.raises(DecodeError, match="varint ends early"):
            read_uvarint(data, 0, stop)


@pytest.mark.parametrize("text", ["8080808080", "ffffffff10", "ffffffffff01", "808080808001"])
def test_a_varint_has_32_bits_at_most(text: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(DecodeError, match="varint longer than 32 bits"):
        read_uvarint(data, 0, len(data))


@given(st.integers(0, VARINT_LIMIT))
def test_every_varint_comes_back(value: int) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert read_uvarint(bytes(out), 0, len(out)) == (value, len(out))


@pytest.mark.parametrize(
    ("length", "value", "text"),
    [
        (INT16_LENGTH, -1, "ffff"),
        (INT16_LENGTH, 5, "0005"),
        (INT32_LENGTH, -1, "ffffffff"),
        (INT32_LENGTH, 5, "00000005"),
        (COMPACT_LENGTH, -1, "00"),
        (COMPACT_LENGTH, 5, "06"),
        (COMPACT_LENGTH, 127, "8001"),
    ],
)
def test_lengths(length: Any, value: int, text: str) -> None:
    data, out = bytes.fromhex(text), bytearray()
    assert length.read(data, 0, len(data)) == (value, len(data))
    length.write(out, value)
    assert out == data


def test_every_type_of_the_schema_can_be_read_and_written() -> None:
    assert {*FIXED, *SIZED} == set(PRIMITIVES)
    assert not FIXED.keys() & SIZED.keys()
