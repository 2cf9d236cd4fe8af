"""Writing messages: defaults, tagged fields in order, and mistakes of the caller."""

from typing import Any

import pytest

from kdissect.protocol.codec.messages import (
    UNKNOWN_TAGS,
    EncodeError,
    encode,
)
from tests.helpers.handmade_messages import raw, small_message


def test_what_is_missing_is_written_as_its_default() -> None:
    message = small_message(
        "a int8 = -1",
        "b string? = null",
        "c []int8",
        "d {}",
        "  e int16 = 5",
        "f uuid",
        "g bool",
        "h int8 1+ tag 0",
    )
    assert encode(message, 0, {}) == raw("ff ffff 00000000 0005") + bytes(17)
    assert encode(message, 1, {})[-1:] == b"\0"


@pytest.mark.parametrize(
    ("version", "value", "reason"),
    [
        (0, {"b": 1}, "X has no field 'b' in version 0"),
        (0, {"c": 1}, "X has no field 'c' in version 0"),
        (0, {"a": {"z": 1}}, "a has no field 'z' in version 0"),
        (0, {UNKNOWN_TAGS: []}, "X has no field '_tags' in version 0"),
        (2, {}, "X has no version 2"),
    ],
)
def test_a_mistake_of_the_caller_raises(version: int, value: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encode(small_message("a {}", "  d int8", "b int8 1+"), version, value)


@pytest.mark.parametrize("value", [{"a": 1 << 31}, {"b": "x" * 40_000}])
def test_a_number_or_length_that_does_not_fit_raises(value: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        encode(small_message("a int32", "b string"), 0, value)


def test_only_tagged_fields_that_are_in_the_value_are_written() -> None:
    message = small_message("a int8 1+ tag 3", "b int8 1+ tag 1")
    assert encode(message, 1, {}) == raw("00")
    assert encode(message, 1, {"a": 0}) == raw("01 03 01 00")


def test_tagged_fields_are_written_in_the_order_of_their_tags_unknown_ones_too() -> None:
    message = small_message("a int8 1+ tag 3", "b int8 1+ tag 1")
    value = {"a": 7, "b": 8, UNKNOWN_TAGS: [(2, b"xy")]}
    assert encode(message, 1, value) == raw('03 01 01 08 02 02 "xy" 03 01 07')


def test_null_is_written_as_the_length_minus_one_or_as_an_absent_struct() -> None:
    message = small_message("a string?", "b []int32?", "c {}? 1+", "  d int8")
    assert encode(message, 0, {"a": None, "b": None}) == raw("ffff ffffffff")
    assert encode(message, 1, {"a": None, "b": None, "c": None}) == raw("00 00 ff 00")
    assert encode(message, 1, {"a": None, "b": None, "c": {"d": 5}}) == raw("00 00 01 05 00 00")
