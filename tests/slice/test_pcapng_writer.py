"""Blocks as kdissect's own reader and dpkt take them apart."""

import io

import dpkt
import pytest

from kdissect.capture.formats import pcapng
from kdissect.slice.pcapng_writer import (
    InterfaceInfo,
    comment_option,
    interface_block,
    names_block,
    packet_block,
    secrets_block,
    section_block,
)


def parts(block: bytes) -> pcapng.PcapngBlock:
    kind, length = (int.from_bytes(block[at : at + 4], "little") for at in (0, 4))
    assert len(block) == length == int.from_bytes(block[-4:], "little")
    assert length % 4 == 0
    return pcapng.PcapngBlock(kind, 0, length, False, block[8:-4])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1500])
def test_dpkt_reads_packets(size: int) -> None:
    time_ns = 1_700_000_000_123_456_789
    interface = interface_block(InterfaceInfo(1, 262144, "eth0", "first"))
    block = packet_block(0, time_ns, b"x" * size, 9000, [comment_option("ä")])
    reader = dpkt.pcapng.Reader(io.BytesIO(section_block() + interface + block))
    ((seconds, data),) = list(reader)
    assert data == b"x" * size
    assert seconds == pytest.approx(time_ns / 1e9)
    body = parts(block)
    assert body.unpack("IIIII")[3:] == (size, 9000)
    assert list(body.options(20 + (size + 3 & ~3))) == [(1, "ä".encode())]


def test_interfaces_are_read_again() -> None:
    block = parts(interface_block(InterfaceInfo(276, 96, "any")))
    interface = pcapng.read_interface(block)
    assert (interface.link_type, interface.snap_length, interface.resolution) == (276, 96, 9)
    assert dict(block.options(8))[2] == b"any"


def test_secrets_and_names() -> None:
    secrets = pcapng.read_secrets(parts(secrets_block(b"CLIENT_RANDOM 00 11\n")))
    assert (secrets.kind, secrets.length) == (0x544C534B, 20)
    assert parts(names_block([(1, b"\x0a\0\0\1broker\0")])).body == (
        b"\x01\0\x0b\0\x0a\0\0\1broker\0\0" + bytes(4)
    )
