"""The codec both ways.

Bytes written by hand from the protocol guide, then random messages of every API and version.

Wrong bytes - cut off, left over, changed - give a fault that names the field and its place, never an
exception.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdissect.protocol.codec.messages import (
    UNKNOWN_TAGS,
    EncodeError,
    Fault,
    decode,
    decode_start,
    encode,
)
from kdissect.protocol.schema.definition import Api, Message
from kdissect.protocol.schema.parser import parse
from kdissect.protocol.schema.registry import APIS, MESSAGES
from tests.helpers.handmade_messages import CASES, raw
from tests.helpers.random_messages import messages, random_message

BODIES = [message for api in APIS.values() for message in (api.request, api.response)]
EVERYTHING = [*BODIES, *MESSAGES.values()]


@pytest.mark.parametrize(("key", "half", "version", "text", "value"), CASES)
def test_bytes_and_values_are_the_same_thing(
    key: int, half: str, version: int, text: str, value: dict[str, Any]
) -> None:
    message, data = getattr(APIS[key], half), raw(text)
    assert decode(message, version, data) == (value, len(data), None)
    assert encode(message, version, value) == data


@pytest.mark.parametrize(("key", "half", "version", "text", "value"), CASES)
def test_cut_off_anywhere_and_left_over(
    key: int, half: str, version: int, text: str, value: dict[str, Any]
) -> None:
    message, data = getattr(APIS[key], half), raw(text)
    for stop in range(len(data)):
        cut = decode(message, version, data[:stop])
        assert cut.fault is not None
        assert 0 <= cut.fault.offset == cut.consumed <= stop
        assert is_part(cut.value, value)
    longer = decode(message, version, data + b"!!")
    assert longer == (value, len(data), Fault("", len(data), "2 bytes left over"))
    assert decode_start(message, version, b"??" + data + b"!!", 2) == (value, len(data) + 2, None)


def is_part(part: Any, whole: Any) -> bool:
    """Return whether what was read of a message that was cut off is true of the message."""
    if isinstance(part, dict):
        return all(name in whole and is_part(part[name], whole[name]) for name in part)
    if isinstance(part, list):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    if isinstance(part, bytes):
        return whole.startswith(part)
    return part == whole


@pytest.mark.parametrize("message", EVERYTHING, ids=lambda message: message.name)
def test_random_messages_come_back(message: Message) -> None:
    for version in message.versions:
        for seed in range(6):
            value = random_message(Random(f"{message.name}{version}{seed}"), message, version)
            data = encode(message, version, value)
            assert decode(message, version, data) == (value, len(data), None)
            assert encode(message, version, decode(message, version, data).value) == data


@pytest.mark.parametrize("message", EVERYTHING, ids=lambda message: message.name)
def test_random_messages_cut_off_anywhere(message: Message) -> None:
    for version in message.versions:
        value = random_message(Random(f"{message.name}{version}cut"), message, version)
        data = encode(message, version, value)
        stops = range(len(data)) if len(data) < 200 else sorted(Random(version).sample(range(len(data)), 200))
        for stop in stops:
            cut = decode(message, version, data[:stop])
            assert cut.fault is not None
            assert cut.fault.offset <= stop
            assert is_part(cut.value, value)


@pytest.mark.parametrize("message", EVERYTHING, ids=lambda message: message.name)
def test_changed_bytes_never_raise(message: Message) -> None:
    for version in message.versions:
        rng = Random(f"{message.name}{version}fuzz")
        original = encode(message, version, random_message(rng, message, version))
        for _ in range(15):
            data = changed(rng, original)
            decoded = decode(message, version, data)
            assert decoded.consumed <= len(data)
            if decoded.fault is None:
                again = encode(message, version, decoded.value)
                assert decode(message, version, again)[::2] == (decoded.value, None)
                # Only a varint longer than it need be is shortened.
                assert again == data or len(again) < len(data)


def changed(rng: Random, data: bytes) -> bytes:
    array = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if array:
            array[rng.randrange(len(array))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(array)


@settings(max_examples=200)
@given(st.data())
def test_any_bytes_are_a_message_or_a_fault(data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(BODIES))
    version = data.draw(st.sampled_from(list(message.versions)))
    junk = data.draw(st.binary(max_size=200))
    decoded = decode(message, version, junk)
    assert decoded.fault is not None or encode(message, version, decoded.value) == junk or 0x80 in junk


@settings(max_examples=100)
@given(messages(APIS[1].response, 17))
def test_hypothesis_makes_messages_too(value: dict[str, Any]) -> None:
    message = APIS[1].response
    assert decode(message, 17, encode(message, 17, value)).value == value


def small(*lines: str, flexible: str = "1+") -> Message:
    (message,) = parse(
        "x.txt", "\n".join([f"X versions 0-1 flexible {flexible}", *(f"  {line}" for line in lines)])
    )
    assert isinstance(message, Message)
    return message


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
    decoded = decode(small(*lines), version, raw(text))
    assert decoded.fault == Fault(path, offset, reason)
    assert decoded.consumed == offset


def test_a_fault_reads_like_a_sentence() -> None:
    assert str(Fault("a[1].b", 7, "negative length -2")) == "a[1].b at byte 7: negative length -2"
    assert str(Fault("", 7, "1 bytes left over")) == "message at byte 7: 1 bytes left over"


def test_what_stands_before_a_fault_is_kept() -> None:
    message = small("a int8", "b []", "  c string", "  d int16", "e records")
    assert decode(message, 0, raw('07 00000002 0001 "x" 0001 0001 "y" 00')).value == {
        "a": 7,
        "b": [{"c": "x", "d": 1}, {"c": "y"}],
    }
    assert decode(message, 0, raw('07 00000009 0001 "x" 0001 0001 "y"')).value == {
        "a": 7,
        "b": [{"c": "x", "d": 1}, {"c": "y"}],
    }
    assert decode(message, 0, raw("07 00000000 00000064 0102")).value == {"a": 7, "b": [], "e": b"\x01\x02"}
    assert decode(small("a []int16"), 0, raw("00000003 0001 0002 00")).value == {"a": [1, 2]}


def test_null_is_read_where_the_schema_has_none() -> None:
    """Brokers other than Kafka's send such, and nothing about the bytes is unclear."""
    message = small("a string", "b bytes", "c []int8", "d []string")
    data = raw("ffff ffffffff ffffffff ffffffff")
    value = dict.fromkeys("abcd")
    assert decode(message, 0, data) == (value, len(data), None)
    assert encode(message, 0, value) == data
    assert decode(message, 1, bytes(5)) == (value, 5, None)


def test_text_that_is_not_utf_8_keeps_its_bytes() -> None:
    message, data = small("a string"), raw("0004 ff 61 c3 80")
    assert decode(message, 0, data).value == {"a": "\udcffaÀ"}
    assert encode(message, 0, {"a": "\udcffaÀ"}) == data


def test_a_bool_that_is_neither_stays_what_it_is() -> None:
    message = small("a bool", "b bool", "c bool", "d []", "  e bool")
    data = raw("00 01 07 00000001 02")
    value = {"a": False, "b": True, "c": 7, "d": [{"e": 2}]}
    assert decode(message, 0, data).value == value
    assert type(decode(message, 0, data).value["b"]) is bool
    assert encode(message, 0, value) == data


def test_a_varint_longer_than_it_need_be_is_read() -> None:
    message = small("a string")
    assert decode(message, 1, raw('8200 "x" 8000')).value == {"a": "x"}


def test_unknown_tags_are_kept_in_their_place() -> None:
    message, data = small("a int8 1+ tag 3"), raw("03 01 00 03 01 07 80 01 02 abcd")
    value = {UNKNOWN_TAGS: [(1, b""), (128, b"\xab\xcd")], "a": 7}
    assert decode(message, 1, data).value == value
    assert encode(message, 1, value) == data


def test_what_is_missing_is_written_as_its_default() -> None:
    message = small(
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
        encode(small("a {}", "  d int8", "b int8 1+"), version, value)


@pytest.mark.parametrize("value", [{"a": 1 << 31}, {"b": "x" * 40_000}])
def test_a_number_or_length_that_does_not_fit_raises(value: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        encode(small("a int32", "b string"), 0, value)


def test_a_version_that_does_not_exist_raises() -> None:
    with pytest.raises(ValueError, match="ProduceRequest has no version 14"):
        decode(APIS[0].request, 14, b"")


def test_a_hostile_count_costs_nothing() -> None:
    """A billion elements are claimed; as many are made as there are bytes."""
    data = raw("7fffffff") + bytes(1000)
    decoded = decode(small("a []", "  b []", "    c int8"), 0, data)
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
    message, wire = small(*lines), raw(data.replace("'", '"'))
    assert decode(message, 0, wire).fault is None
    fault = decode(message, 0, wire, strict=True).fault
    assert fault is not None
    assert (fault.path, fault.reason) == (path, "null, which this field cannot be")


def test_strict_readers_take_null_where_the_schema_has_it() -> None:
    message = small("a string?", "b []string?", "c bytes?")
    assert decode(message, 0, raw("ffff ffffffff ffffffff"), strict=True).value == dict.fromkeys("abc")


@pytest.mark.parametrize("message", EVERYTHING, ids=lambda message: message.name)
def test_strict_readers_read_the_same(message: Message) -> None:
    rng = Random(message.name)
    for version in message.versions:
        data = encode(message, version, random_message(rng, message, version))
        lenient, strict = decode(message, version, data), decode(message, version, data, strict=True)
        assert strict == lenient or (strict.fault is not None and strict.fault.reason.startswith("null"))


def test_every_pair_is_tested() -> None:
    pairs = {(api.key, version) for api in APIS.values() for version in api.versions if isinstance(api, Api)}
    assert sum(len(message.versions) for message in BODIES) == 2 * len(pairs)
