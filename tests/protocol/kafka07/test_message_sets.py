"""Message sets of Kafka 0.7, by hand: whole, compressed inside each other, cut and wrong."""

import gzip
import struct
from typing import Any

import pytest
import snappy

from kdissect.protocol.kafka07.message_sets import (
    SetRecord,
    cut_bytes,
    read_set_records,
    summarise_message_set,
)
from kdissect.protocol.records.record_decoder import RecordFault
from tests.helpers.kafka07_messages import SET, set_message


def values(data: bytes, **bounds: int) -> list[Any]:
    found = read_set_records(data, **bounds)
    return [each.value if isinstance(each, SetRecord) else each for each in found]


def test_messages() -> None:
    assert values(SET) == [b"one", b"two"]
    assert summarise_message_set(SET) == (2, 2, 0, None)
    assert summarise_message_set(b"") == (0, 0, -1, None)


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
    data = set_message(compressed, codec) + set_message(b"three", 0)
    assert values(data) == [b"one", b"two", b"three"]
    assert summarise_message_set(data) == (3, 2, codec, None)


def test_compressed_sets_inside_each_other() -> None:
    data = SET
    for _ in range(4):
        data = set_message(gzip.compress(data), 1)
    assert values(data) == [b"one", b"two"]
    deeper = set_message(gzip.compress(data), 1)
    assert values(deeper) == [RecordFault(0, "more than 4 compressed messages inside each other")]


def test_a_cut_last_message_is_no_fault() -> None:
    for size in range(len(set_message(b"one")), len(SET)):
        assert values(SET[:size]) == [b"one"]
        assert cut_bytes(SET[:size]) == size - len(set_message(b"one"))
    assert cut_bytes(SET) == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x00\x09\x02" + bytes(8), "magic 2 is not known"),
        (b"\x00\x00\x00\x04\x00" + bytes(8), "length 4 is too small"),
        (b"\xff\xff\xff\xff\x00" + bytes(8), "length -1 is too small"),
        (set_message(b"x", 3), "codec 3 is not known"),
        (
            set_message(gzip.compress(SET[:-1], mtime=0), 1),
            "ends in the middle of a message, 12 bytes of it, when decompressed",
        ),
        (
            set_message(gzip.compress(b"\0\0\0\x09\x07" + bytes(8), mtime=0), 1),
            "magic 7 is not known, at byte 0 when decompressed",
        ),
    ],
)
def test_wrong_messages(data: bytes, reason: str) -> None:
    fault = values(set_message(b"before") + data)[-1]
    assert fault == RecordFault(len(set_message(b"before")), reason)


def test_a_bomb_is_given_up() -> None:
    bomb = set_message(gzip.compress(set_message(bytes(1 << 20))), 1)
    (fault,) = values(bomb, limit=1 << 16)
    assert fault == RecordFault(0, f"gzip: more than {1 << 16} bytes when decompressed", too_large=True)
    twice = values(bomb + bomb, limit=(1 << 20) + 100)
    assert isinstance(twice[1], RecordFault)


def test_checksums() -> None:
    wrong = bytearray(SET)
    wrong[-1] ^= 1
    frames = [each.frame for each in read_set_records(bytes(wrong)) if isinstance(each, SetRecord)]
    assert [frame.checksum_holds for frame in frames] == [True, False]
