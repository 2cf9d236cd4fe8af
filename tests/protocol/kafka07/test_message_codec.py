"""Kafka 0.7.

Bytes by hand from the guide for authors of drivers, and what is left of them when they are wrong.
"""

import gzip
import random
import struct
import zlib
from typing import Any

import pytest
import snappy

from kdissect.protocol.kafka07.message_codec import (
    OldType,
    decode_old_request,
    decode_old_response,
    old_error_name,
    old_name,
)
from kdissect.protocol.kafka07.message_sets import (
    OldRecord,
    cut_bytes,
    read_old_records,
    summarise_old,
)
from kdissect.protocol.records.record_decoder import RecordFault
from tests.helpers.kafka07_messages import encode_old_request, encode_old_response


def message(payload: bytes, attributes: int | None = None) -> bytes:
    """A message of magic 0, or of magic 1 if attributes are given."""
    front = b"\x00" if attributes is None else bytes([1, attributes])
    body = front + struct.pack(">I", zlib.crc32(payload)) + payload
    return struct.pack(">i", len(body)) + body


SET = message(b"one") + message(b"two", 0)
PART = b"\x00\x04test" + b"\x00\x00\x00\x07"
FETCHED = {"topic": "test", "partition": 7, "offset": 258, "max_size": 300_000}
PRODUCED = {"topic": "test", "partition": 7, "messages": SET}
ASKED = b"\x00\x00\x00\x00\x00\x00\x01\x02" + b"\x00\x04\x93\xe0"

REQUESTS: dict[OldType, tuple[bytes, dict[str, Any]]] = {
    OldType.PRODUCE: (b"\x00\x00" + PART + struct.pack(">i", len(SET)) + SET, PRODUCED),
    OldType.FETCH: (b"\x00\x01" + PART + ASKED, FETCHED),
    OldType.MULTI_FETCH: (b"\x00\x02\x00\x02" + (PART + ASKED) * 2, {"requests": [FETCHED, FETCHED]}),
    OldType.MULTI_PRODUCE: (
        b"\x00\x03\x00\x01" + PART + struct.pack(">i", len(SET)) + SET,
        {"requests": [PRODUCED]},
    ),
    OldType.OFFSETS: (
        b"\x00\x04" + PART + b"\xff" * 7 + b"\xfe" + b"\x00\x00\x00\x0a",
        {"topic": "test", "partition": 7, "time": -2, "max_number": 10},
    ),
}
RESPONSES: dict[OldType, tuple[bytes, int, dict[str, Any]]] = {
    OldType.FETCH: (b"\x00\x00" + SET, 0, {"messages": SET}),
    OldType.MULTI_FETCH: (
        b"\x00\x00" + struct.pack(">ih", 2 + len(SET), 0) + SET + struct.pack(">ih", 2, 3),
        0,
        {"responses": [{"error_code": 0, "messages": SET}, {"error_code": 3, "messages": b""}]},
    ),
    OldType.OFFSETS: (
        b"\x00\x00" + b"\x00\x00\x00\x02" + struct.pack(">qq", 9000, 0),
        0,
        {"offsets": [9000, 0]},
    ),
}


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.name)
def test_requests(kind: OldType) -> None:
    raw, body = REQUESTS[kind]
    whole = decode_old_request(raw)
    assert (whole.header, whole.body, whole.fault) == ({"request_type": kind}, body, None)
    assert encode_old_request(kind, body) == raw


@pytest.mark.parametrize("kind", RESPONSES, ids=lambda kind: kind.name)
def test_responses(kind: OldType) -> None:
    raw, code, body = RESPONSES[kind]
    whole = decode_old_response(raw, kind)
    assert (whole.header, whole.body, whole.fault) == ({"error_code": code}, body, None)
    assert encode_old_response(kind, code, body) == raw


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"\x00", "request_type at byte 0: only 1 of 2 bytes"),
        (b"\x00\x09", "request_type at byte 0: unknown type 9"),
        (REQUESTS[OldType.FETCH][0][:-1], "max_size at byte 20: only 3 of 4 bytes"),
        (REQUESTS[OldType.FETCH][0] + b"xy", "message at byte 24: 2 bytes left over"),
        (REQUESTS[OldType.MULTI_FETCH][0][:30], "requests[1].topic at byte 26: length 4, but 2 bytes left"),
        (b"\x00\x02\xff\xff", "requests at byte 2: negative count -1"),
        (b"\x00\x03\x00", "requests at byte 2: only 1 of 2 bytes"),
    ],
)
def test_wrong_requests(raw: bytes, fault: str) -> None:
    assert str(decode_old_request(raw).fault) == fault


@pytest.mark.parametrize(
    ("kind", "raw", "fault"),
    [
        (OldType.FETCH, b"", "error_code at byte 0: only 0 of 2 bytes"),
        (OldType.MULTI_FETCH, b"\0\0\0\0\0\1\0\0", "responses[0] at byte 2: size 1 is too small"),
        (OldType.MULTI_FETCH, b"\0\0\0\0\0\x09\0\0", "responses[0] at byte 2: size 9, but 2 bytes left"),
        (OldType.MULTI_FETCH, b"\0\0\0\0", "responses[0] at byte 2: only 2 of 6 bytes"),
        (
            OldType.OFFSETS,
            b"\0\0\x7f\xff\xff\xff",
            "offsets at byte 2: 2147483647 elements, but 0 bytes left",
        ),
    ],
)
def test_wrong_responses(kind: OldType, raw: bytes, fault: str) -> None:
    assert str(decode_old_response(raw, kind).fault) == fault


def test_an_error_alone() -> None:
    for kind in RESPONSES:
        whole = decode_old_response(b"\x00\x01", kind)
        assert (whole.header, whole.fault) == ({"error_code": 1}, None)
    assert old_error_name(1) == "OFFSET_OUT_OF_RANGE"
    assert (old_error_name(9), old_name(9)) == ("UNKNOWN(9)", "UNKNOWN(9)")


def test_whatever_is_wrong_is_a_fault_and_never_raised() -> None:
    chance = random.Random(7)
    frames = [raw for raw, _ in REQUESTS.values()] + [raw for raw, _, _ in RESPONSES.values()]
    for _ in range(4000):
        raw = bytearray(chance.choice(frames))
        for _ in range(chance.randint(0, 3)):
            raw[chance.randrange(len(raw))] = chance.choice((0, 1, 2, 127, 128, 255))
        cut = bytes(raw[: chance.randint(0, len(raw))])
        decode_old_request(cut)
        for kind in OldType:
            decode_old_response(cut, kind)
        summarise_old(cut)


def test_every_cut_request_says_where_it_ends() -> None:
    for raw, _ in REQUESTS.values():
        for size in range(len(raw)):
            assert decode_old_request(raw[:size]).fault is not None


def values(data: bytes, **bounds: int) -> list[Any]:
    found = read_old_records(data, **bounds)
    return [each.value if isinstance(each, OldRecord) else each for each in found]


def test_messages() -> None:
    assert values(SET) == [b"one", b"two"]
    assert summarise_old(SET) == (2, 2, 0, None)
    assert summarise_old(b"") == (0, 0, -1, None)


@pytest.mark.parametrize(
    ("codec", "compressed"),
    [
        (1, gzip.compress(SET)),
        (2, snappy.compress(SET)),
        (
            2,
            b"\x82SNAPPY\x00"
            + struct.pack(">ii", 1, 1)
            + struct.pack(">i", len(snappy.compress(SET)))
            + snappy.compress(SET),
        ),
    ],
    ids=["gzip", "snappy", "xerial"],
)
def test_compressed_sets(codec: int, compressed: bytes) -> None:
    data = message(compressed, codec) + message(b"three", 0)
    assert values(data) == [b"one", b"two", b"three"]
    assert summarise_old(data) == (3, 2, codec, None)


def test_compressed_sets_inside_each_other() -> None:
    data = SET
    for _ in range(4):
        data = message(gzip.compress(data), 1)
    assert values(data) == [b"one", b"two"]
    deeper = message(gzip.compress(data), 1)
    assert values(deeper) == [RecordFault(0, "more than 4 compressed messages inside each other")]


def test_a_cut_last_message_is_no_fault() -> None:
    for size in range(len(message(b"one")), len(SET)):
        assert values(SET[:size]) == [b"one"]
        assert cut_bytes(SET[:size]) == size - len(message(b"one"))
    assert cut_bytes(SET) == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x00\x09\x02" + bytes(8), "magic 2 is not known"),
        (b"\x00\x00\x00\x04\x00" + bytes(8), "length 4 is too small"),
        (b"\xff\xff\xff\xff\x00" + bytes(8), "length -1 is too small"),
        (message(b"x", 3), "codec 3 is not known"),
        (
            message(gzip.compress(SET[:-1], mtime=0), 1),
            "ends in the middle of a message, 12 bytes of it, when decompressed",
        ),
        (
            message(gzip.compress(b"\0\0\0\x09\x07" + bytes(8), mtime=0), 1),
            "magic 7 is not known, at byte 0 when decompressed",
        ),
    ],
)
def test_wrong_messages(data: bytes, reason: str) -> None:
    fault = values(message(b"before") + data)[-1]
    assert fault == RecordFault(len(message(b"before")), reason)


def test_a_bomb_is_given_up() -> None:
    bomb = message(gzip.compress(message(bytes(1 << 20))), 1)
    (fault,) = values(bomb, limit=1 << 16)
    assert fault == RecordFault(0, f"gzip: more than {1 << 16} bytes when decompressed", too_large=True)
    twice = values(bomb + bomb, limit=(1 << 20) + 100)
    assert isinstance(twice[1], RecordFault)


def test_checksums() -> None:
    wrong = bytearray(SET)
    wrong[-1] ^= 1
    frames = [each.frame for each in read_old_records(bytes(wrong)) if isinstance(each, OldRecord)]
    assert [frame.checksum_holds for frame in frames] == [True, False]
