"""The codec in both directions: bytes by hand from the protocol guide, random messages, damaged bytes.

Wrong bytes, be they cut off, left over or changed, are a fault that names the field and its place.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdissect.protocol.codec.messages import (
    UNKNOWN_TAGS,
    Fault,
    decode,
    decode_start,
    encode,
)
from kdissect.protocol.schema.definition import Api, Message
from kdissect.protocol.schema.registry import APIS
from tests.helpers.every_message import ALL_MESSAGES, REQUESTS_AND_RESPONSES
from tests.helpers.handmade_messages import CASES, raw, small_message
from tests.helpers.random_messages import messages, random_message


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


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.name)
def test_random_messages_come_back(message: Message) -> None:
    for version in message.versions:
        for seed in range(6):
            value = random_message(Random(f"{message.name}{version}{seed}"), message, version)
            data = encode(message, version, value)
            assert decode(message, version, data) == (value, len(data), None)
            assert encode(message, version, decode(message, version, data).value) == data


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.name)
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


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.name)
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
    message = data.draw(st.sampled_from(REQUESTS_AND_RESPONSES))
    version = data.draw(st.sampled_from(list(message.versions)))
    junk = data.draw(st.binary(max_size=200))
    decoded = decode(message, version, junk)
    assert decoded.fault is not None or encode(message, version, decoded.value) == junk or 0x80 in junk


@settings(max_examples=100)
@given(messages(APIS[1].response, 17))
def test_hypothesis_makes_messages_too(value: dict[str, Any]) -> None:
    message = APIS[1].response
    assert decode(message, 17, encode(message, 17, value)).value == value


def test_a_fault_reads_like_a_sentence() -> None:
    assert str(Fault("a[1].b", 7, "negative length -2")) == "a[1].b at byte 7: negative length -2"
    assert str(Fault("", 7, "1 bytes left over")) == "message at byte 7: 1 bytes left over"


def test_text_that_is_not_utf_8_keeps_its_bytes() -> None:
    message, data = small_message("a string"), raw("0004 ff 61 c3 80")
    assert decode(message, 0, data).value == {"a": "\udcffaÀ"}
    assert encode(message, 0, {"a": "\udcffaÀ"}) == data


def test_unknown_tags_are_kept_in_their_place() -> None:
    message, data = small_message("a int8 1+ tag 3"), raw("03 01 00 03 01 07 80 01 02 abcd")
    value = {UNKNOWN_TAGS: [(1, b""), (128, b"\xab\xcd")], "a": 7}
    assert decode(message, 1, data).value == value
    assert encode(message, 1, value) == data


def test_every_pair_is_tested() -> None:
    pairs = {(api.key, version) for api in APIS.values() for version in api.versions if isinstance(api, Api)}
    assert sum(len(message.versions) for message in REQUESTS_AND_RESPONSES) == 2 * len(pairs)
