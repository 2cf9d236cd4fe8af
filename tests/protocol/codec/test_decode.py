"""Reading messages: every fault names its field and place, and what could be read is kept."""

from random import Random

import pytest

from kdissect.protocol.codec.decode import least_size
from kdissect.protocol.codec.messages import (
    Fault,
    decode,
    encode,
)
from kdissect.protocol.schema.definition import Message
from kdissect.protocol.schema.registry import APIS
from tests.helpers.every_message import ALL_MESSAGES
from tests.helpers.handmade_messages import raw, small_message
from tests.helpers.random_messages import random_message

FAULTS = [
    # (field lines, version, bytes, path, offset, reason)
    (["a int32"], 0, "0000", "a", 0, "only 2 of 4 bytes"),
    (["a int8", "b int32"], 0, "01 0000", "b", 1, "only 2 of 4 bytes"),
    (["a string"], 0, "00", "a", 0, "only 1 of 2 bytes"),
    (["a string"], 0, '0004 "abc"', "a", 0, "length 4, but 3 bytes left"),
    (["a string"], 0, "fffe", "a", 0, "negative length -2"),
    (["a bytes"], 0, "7fffffff 00", "a", 0, "length 2147483647, but 1 bytes left"),
    (["a bytes"], 0, "80000000", "a", 0, "negative length -2147483648"),
    (["a string"], 1, "80", "a", 0, "varint ends early"),
    (["a string"], 1, "8080808080 01", "a", 0, "varint longer than 32 bits"),
    (["a string"], 1, "ffffffff1f", "a", 0, "varint longer than 32 bits"),
    (["a bytes"], 1, "ffffffff0f 00", "a", 0, "length 4294967294, but 1 bytes left"),
    (["a []int32"], 0, "00000002 00000001", "a", 0, "2 elements, but 4 bytes left"),
    (["a []int32"], 0, "fffffffe", "a", 0, "negative count -2"),
    (["a []string"], 0, "7fffffff", "a", 0, "2147483647 elements, but 0 bytes left"),
    (["a []", "  b int64"], 0, "00000002 0000000000000001", "a", 0, "2 elements, but 8 bytes left"),
    (["a []", "  b string"], 0, '00000002 0001 "x" 0003 "y"', "a[1].b", 7, "length 3, but 1 bytes left"),
    (["a {}", "  b {}", "    c int8"], 0, "", "a.b.c", 0, "only 0 of 1 bytes"),
    (["a {}? 1+", "  b int8"], 1, "", "a", 0, "only 0 of 1 bytes"),
    (["a {}? 1+", "  b int8"], 1, "02", "a", 0, "nullable struct marked 2, neither 1 nor 255"),
    (["a int8"], 1, "01", "", 1, "varint ends early"),
    (["a int8"], 1, "01 05 0000", "", 1, "5 tagged fields, but 2 bytes left"),
    (["a int8 1+ tag 3"], 1, "01 03 02 00", "", 1, "tag 3 has 2 bytes, but 1 are left"),
    (["a int16 1+ tag 3"], 1, "01 03 01 00", "a", 3, "only 1 of 2 bytes"),
    (["a int8 1+ tag 3"], 1, "01 03 02 0000", "a", 3, "tag 3 has 2 bytes, but its value 1"),
    (["a int8 1+ tag 3"], 1, "02 03 01 00 03 01 00", "", 4, "tag 3 after tag 3"),
    (["a int8 1+ tag 3"], 1, "02 05 00 03 01 00", "", 3, "tag 3 after tag 5"),
    (["a {} 1+ tag 3", "  b []int8"], 1, "01 03 02 0500", "a.b", 3, "4 elements, but 1 bytes left"),
    (["a int8"], 0, "0102", "", 1, "1 bytes left over"),
]


@pytest.mark.parametrize(("lines", "version", "text", "path", "offset", "reason"), FAULTS)
def test_what_is_wrong_is_said(
    lines: list[str], version: int, text: str, path: str, offset: int, reason: str
) -> None:
    decoded = decode(small_message(*lines), version, raw(text))
    assert decoded.fault == Fault(path, offset, reason)
    assert decoded.consumed == offset


def test_what_stands_before_a_fault_is_kept() -> None:
    message = small_message("a int8", "b []", "  c string", "  d int16", "e records")
    assert decode(message, 0, raw('07 00000002 0001 "x" 0001 0001 "y" 00')).value == {
        "a": 7,
        "b": [{"c": "x", "d": 1}, {"c": "y"}],
    }
    assert decode(message, 0, raw('07 00000009 0001 "x" 0001 0001 "y"')).value == {
        "a": 7,
        "b": [{"c": "x", "d": 1}, {"c": "y"}],
    }
    assert decode(message, 0, raw("07 00000000 00000064 0102")).value == {"a": 7, "b": [], "e": b"\x01\x02"}
    assert decode(small_message("a []int16"), 0, raw("00000003 0001 0002 00")).value == {"a": [1, 2]}


def test_null_is_read_where_the_schema_has_none() -> None:
    """Brokers other than Kafka's send such, and nothing about the bytes is unclear."""
    message = small_message("a string", "b bytes", "c []int8", "d []string")
    data = raw("ffff ffffffff ffffffff ffffffff")
    value = dict.fromkeys("abcd")
    assert decode(message, 0, data) == (value, len(data), None)
    assert encode(message, 0, value) == data
    assert decode(message, 1, bytes(5)) == (value, 5, None)


def test_a_bool_that_is_neither_stays_what_it_is() -> None:
    message = small_message("a bool", "b bool", "c bool", "d []", "  e bool")
    data = raw("00 01 07 00000001 02")
    value = {"a": False, "b": True, "c": 7, "d": [{"e": 2}]}
    assert decode(message, 0, data).value == value
    assert type(decode(message, 0, data).value["b"]) is bool
    assert encode(message, 0, value) == data


def test_a_varint_longer_than_it_need_be_is_read() -> None:
    message = small_message("a string")
    assert decode(message, 1, raw('8200 "x" 8000')).value == {"a": "x"}


def test_a_version_that_does_not_exist_raises() -> None:
    with pytest.raises(ValueError, match="ProduceRequest has no version 14"):
        decode(APIS[0].request, 14, b"")


def test_a_hostile_count_costs_nothing() -> None:
    """A billion elements are claimed; as many are made as there are bytes."""
    data = raw("7fffffff") + bytes(1000)
    decoded = decode(small_message("a []", "  b []", "    c int8"), 0, data)
    assert decoded.fault == Fault("a", 0, "2147483647 elements, but 1000 bytes left")
    assert len(decoded.value["a"]) == 250


@pytest.mark.parametrize(
    ("lines", "data", "path"),
    [
        (("a int8", "b string"), "07 ffff", "b"),
        (("a int8", "b bytes"), "07 ffffffff", "b"),
        (("a []", "  b string"), "00000002 0001 'x' ffff", "a[1].b"),
        (("a []string",), "00000002 0001 'x' ffff", "a[1]"),
        (("a []int32",), "ffffffff", "a"),
        (("a []", "  b int8"), "ffffffff", "a"),
    ],
)
def test_null_is_a_fault_only_for_strict_readers(lines: tuple[str, ...], data: str, path: str) -> None:
    message, wire = small_message(*lines), raw(data.replace("'", '"'))
    assert decode(message, 0, wire).fault is None
    fault = decode(message, 0, wire, strict=True).fault
    assert fault is not None
    assert (fault.path, fault.reason) == (path, "null, which this field cannot be")


def test_strict_readers_take_null_where_the_schema_has_it() -> None:
    message = small_message("a string?", "b []string?", "c bytes?")
    assert decode(message, 0, raw("ffff ffffffff ffffffff"), strict=True).value == dict.fromkeys("abc")


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.name)
def test_strict_readers_read_the_same(message: Message) -> None:
    rng = Random(message.name)
    for version in message.versions:
        data = encode(message, version, random_message(rng, message, version))
        lenient, strict = decode(message, version, data), decode(message, version, data, strict=True)
        assert strict == lenient or (strict.fault is not None and strict.fault.reason.startswith("null"))


@pytest.mark.parametrize(
    ("lines", "version", "few", "many"),
    [
        (("a []", "  b int8"), 0, "00000003 010203", "00000004 01020304"),
        (("a int8",), 1, "07 03 0100 0200 0300", "07 04 0100 0200 0300 0400"),
    ],
    ids=["elements", "unknown tagged fields"],
)
def test_what_is_kept_of_one_message_is_bounded(
    monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], version: int, few: str, many: str
) -> None:
    monkeypatch.setattr("kdissect.limits.ELEMENTS", 3)
    message = small_message(*lines)
    assert decode(message, version, raw(few)).fault is None
    fault = decode(message, version, raw(many)).fault
    assert fault is not None
    assert fault.reason == "more than the 3 elements that are kept of one message"


def test_least_size_is_what_a_message_of_defaults_takes() -> None:
    for message in ALL_MESSAGES:
        for version in message.versions:
            flexible = version in message.flexible
            assert least_size(message, version, flexible) <= len(encode(message, version, {})), message.name
    message = small_message("a int32", "b string", "c []int64", "d {}", "  e uuid")
    assert least_size(message, 0, False) == 4 + 2 + 4 + 16
    assert least_size(message, 1, True) == 4 + 1 + 1 + 16 + 1 + 1  # the empty tags of both structs
