"""Streams are cut at packet boundaries, however their bytes arrive."""

import random
import struct
from pathlib import Path

import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.live.packet_stream import PacketStream
from tests.helpers.rings import CAPTURES, packets_of

PCAP = CAPTURES / "old-broker.pcap"


def pcapng() -> Path:
    return min(CAPTURES.glob("*.pcapng"), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_pieces_of_any_size_give_complete_records(seed: int) -> None:
    chance = random.Random(seed)
    data = PCAP.read_bytes()
    header, records = packets_of(PCAP)
    edges = {24}
    for record in records:
        edges.add(max(edges) + len(record))
    stream = PacketStream("input")
    at = taken = 0
    while at < len(data):
        size = chance.choice([1, 7, 100, 5000, 100_000])
        stream.feed(data[at : at + size])
        at += size
        taken += len(stream.take())
        assert taken == 0 or 24 + taken in edges
    assert (taken, stream.header(), stream.packets, stream.rest) == (len(data) - 24, header, len(records), 0)


def test_blocks_of_pcapng_are_kept_whole_and_descriptions_are_repeated() -> None:
    data = pcapng().read_bytes()
    stream = PacketStream("input")
    out = b""
    for at in range(0, len(data), 1000):
        stream.feed(data[at : at + 1000])
        assert at or stream.begins_with_section
        out += stream.take()
    assert out == data
    assert stream.header().startswith(b"\x0a\x0d\x0d\x0a")
    assert stream.packets > 0
    section = struct.unpack_from("<I", data, 4)[0]
    assert stream.header()[section : section + 4] == struct.pack("<I", 1)  # an interface follows


def test_what_is_no_capture_or_damaged_is_refused() -> None:
    with pytest.raises(InputError, match="is not a packet capture"):
        PacketStream("input").feed(b"GET / HTTP/1.1")
    stream = PacketStream("input")
    data = bytearray(PCAP.read_bytes()[: 24 + 16])
    data[32:36] = b"\xff\xff\xff\x7f"
    with pytest.raises(InputError, match="damaged after 0 packets"):
        stream.feed(bytes(data))
    block = struct.pack("<II", 0x0A0D0D0A, 28) + b"\x4d\x3c\x2b\x1a" + bytes(12) + struct.pack("<I", 28)
    stream = PacketStream("input")
    with pytest.raises(InputError, match="damaged"):
        stream.feed(block + struct.pack("<III", 6, 3, 0))
