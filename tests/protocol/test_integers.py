"""Integers against int.from_bytes; varints against the plain codec's, on every kind of end."""

from random import Random

import numpy as np
import pytest

from kdissect.protocol.codec.wire import write_uvarint
from kdissect.protocol.integers import (
    ENDS_EARLY,
    TOO_LONG,
    int8_at,
    int16_at,
    int32_at,
    int64_at,
    uint16_at,
    uvarint_at,
)

READERS = (
    (int8_at, 1, True),
    (int16_at, 2, True),
    (uint16_at, 2, False),
    (int32_at, 4, True),
    (int64_at, 8, True),
)


@pytest.mark.parametrize(("read", "size", "signed"), READERS)
def test_fixed_sizes(read: object, size: int, signed: bool) -> None:
    rng = Random(size)
    for raw in (
        b"\0" * size,
        b"\xff" * size,
        b"\x80" + b"\0" * (size - 1),
        *(rng.randbytes(size) for _ in range(50)),
    ):
        value = read(np.frombuffer(b"?" + raw, np.uint8), 1)  # type: ignore[operator]
        assert int(value) == int.from_bytes(raw, signed=signed)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**14, 2**21 - 1, 2**28, 2**31, 2**32 - 1])
def test_varints(value: int) -> None:
    out = bytearray(b"?")
    write_uvarint(out, value)
    data = np.frombuffer(bytes(out) + b"!", np.uint8)
    assert tuple(map(int, uvarint_at(data, 1, len(data)))) == (value, len(out))
    for stop in range(1, len(out)):
        assert int(uvarint_at(data, 1, stop)[1]) == ENDS_EARLY


@pytest.mark.parametrize("raw", ["ffffffff10", "808080808000", "ffffffffff01"])
def test_varints_of_more_than_32_bits(raw: str) -> None:
    data = np.frombuffer(bytes.fromhex(raw), np.uint8)
    assert int(uvarint_at(data, 0, len(data))[1]) == TOO_LONG


def test_a_varint_may_be_longer_than_it_need_be() -> None:
    data = np.frombuffer(bytes.fromhex("8000"), np.uint8)
    assert tuple(map(int, uvarint_at(data, 0, 2))) == (0, 2)
