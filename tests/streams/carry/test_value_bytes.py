"""Written values are read again, and nothing else is."""

import numpy as np
import pytest

from kdissect.streams.carry.value_bytes import MAGIC, CarriedStateError, from_bytes, to_bytes

TREE = {
    "numbers": [1, -1, 1 << 80, 0],
    "nothing": None,
    "yes": True,
    "text": "ü\ud800"[:1],
    "raw": b"\x00\xff",
    "nested": [{"a": b""}, [], {}],
    "class": {"class": "x", "fields": [b"y"]},
}


def test_a_tree_comes_back() -> None:
    assert from_bytes(to_bytes(TREE)) == TREE


@pytest.mark.parametrize(
    "array",
    [np.zeros((0, 7), np.int64), np.arange(12).reshape(3, 4), np.array([1, 2], np.uint8), np.arange(9)[::2]],
)
def test_arrays_come_back(array: np.ndarray) -> None:
    found = from_bytes(to_bytes({"one": array, "other": [array]}))
    for one in (found["one"], found["other"][0]):
        assert one.dtype == array.dtype
        assert one.shape == array.shape
        assert (one == array).all()


@pytest.mark.parametrize("value", [object(), {1, 2}, 1.5, {"array": 3}, np.array([object()])])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        to_bytes(value)


def test_damage_is_one_sentence() -> None:
    data = to_bytes(TREE)
    for place in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        if place < len(MAGIC) or place >= len(MAGIC) + 4:
            with pytest.raises(CarriedStateError, match=r"the state \S+"):
                from_bytes(bytes(damaged), "the state")
    for length in range(0, len(data), 7):
        with pytest.raises(CarriedStateError):
            from_bytes(data[:length])


def test_another_version_is_refused() -> None:
    data = bytearray(to_bytes(TREE))
    data[len(MAGIC)] = 99
    with pytest.raises(CarriedStateError, match="another version"):
        from_bytes(bytes(data))
