"""One packet: every link layer, IPv4 and IPv6 with all that may stand before TCP, and bytes that lie."""

import random
import struct

import dpkt
import pytest

from kdissect.capture.packets.headers import (
    ACKNOWLEDGED,
    CONTROL,
    DATAGRAM,
    FRAGMENT,
    FRAGMENT_LENGTH,
    FRAGMENT_OFFSET,
    HEAD_BYTES,
    MALFORMED,
    NOT_TCP,
    PAYLOAD,
    PAYLOAD_CAPTURED,
    PAYLOAD_MISSING,
    SEGMENT,
    SEQUENCE,
    SOURCE_PORT,
    TARGET_PORT,
    WINDOW,
)
from tests.capture.packets.link_frames import LINKS, V4, V6, read
from tests.helpers.crafted_packets import SYN, ethernet, ip, tcp


def extended(*headers: tuple[int, bytes]) -> bytes:
    """Put IPv6 extension headers before the TCP of V6."""
    kinds = [kind for kind, _ in headers] + [6]
    body = b"".join(
        bytes([following]) + rest for following, (_, rest) in zip(kinds[1:], headers, strict=True)
    )
    return ethernet(ip("2001:db8::1", "fe80::2", kinds[0], body + V6[40:]))


def test_extension_headers() -> None:
    hop = (0, b"\0" + bytes(6))
    routing = (43, b"\2" + bytes(22))
    destination = (60, b"\1" + bytes(14))
    authentication = (51, b"\4" + bytes(22))
    atomic = (44, b"\0\0\0" + bytes(4))
    for headers in (
        [hop],
        [hop, destination, routing],
        [authentication],
        [atomic],
        [hop, atomic, destination],
    ):
        what, out = read(extended(*headers))
        assert (what, out[SOURCE_PORT], out[PAYLOAD_CAPTURED], out[PAYLOAD_MISSING]) == (SEGMENT, 1234, 7, 0)


@pytest.mark.parametrize(("offset", "what"), [(1, SEGMENT), (8, FRAGMENT), (0xFFF8, FRAGMENT)])
def test_ipv6_fragments(offset: int, what: int) -> None:
    found, out = read(extended((44, b"\0" + struct.pack(">H", offset) + bytes(4))))
    assert (found, out[FRAGMENT_OFFSET], out[FRAGMENT_LENGTH]) == (what, offset & 0xFFF8, 27)
    assert out[DATAGRAM] >= 0


@pytest.mark.parametrize(("fragment", "what"), [(0x2000, SEGMENT), (0x0001, FRAGMENT), (0x3FFF, FRAGMENT)])
def test_ipv4_fragments(fragment: int, what: int) -> None:
    found, out = read(ethernet(ip("10.0.0.1", "10.0.0.2", 6, V4[20:], fragment)))
    assert (found, out[FRAGMENT_OFFSET], out[FRAGMENT_LENGTH]) == (what, (fragment & 0x1FFF) * 8, 27)
    assert out[DATAGRAM] >= 0
    found, out = read(ethernet(ip("10.0.0.1", "10.0.0.2", 6, V4[20:], 0x4000)))
    assert (found, out[DATAGRAM]) == (SEGMENT, -1)


def test_options_of_ip_and_tcp() -> None:
    segment = tcp(payload=b"payload", options=b"\1" * 40)
    assert read(ethernet(segment))[1][PAYLOAD_CAPTURED] == 7
    what, out = read(ethernet(ip("10.0.0.1", "10.0.0.2", 6, segment[20:], options=b"\1" * 40)))
    assert (what, out[PAYLOAD], out[PAYLOAD_CAPTURED]) == (SEGMENT, 14 + 60 + 60, 7)


@pytest.mark.parametrize("packet", [V4, V6])
def test_no_length_in_ip_means_all_that_was_captured(packet: bytes) -> None:
    at = 2 if packet is V4 else 4
    frame = ethernet(packet[:at] + b"\0\0" + packet[at + 2 :])
    assert read(frame)[1][PAYLOAD_CAPTURED] == 7
    _, out = read(frame, original=len(frame) + 70_000)
    assert (out[PAYLOAD_CAPTURED], out[PAYLOAD_MISSING]) == (7, 70_000)


@pytest.mark.parametrize("packet", [V4, V6])
def test_bytes_that_the_capture_did_not_keep(packet: bytes) -> None:
    frame = ethernet(packet)
    for kept in range(len(frame)):
        what, out = read(frame[:kept], original=len(frame))
        if kept < len(frame) - 7:
            assert what == (NOT_TCP if kept < 0 else MALFORMED)
        else:
            assert what == SEGMENT
            assert out[PAYLOAD_CAPTURED] + out[PAYLOAD_MISSING] == 7
            assert out[PAYLOAD_CAPTURED] == kept - (len(frame) - 7)


def test_kept_bytes_beyond_the_wire_are_not_payload() -> None:
    what, out = read(ethernet(V4) + b"trailer!", original=len(ethernet(V4)) - 16)
    assert (what, out[PAYLOAD_CAPTURED], out[PAYLOAD_MISSING]) == (SEGMENT, 7, 0)


def test_what_is_not_tcp() -> None:
    assert read(ethernet(bytes(40), ethertype=0x0806))[0] == NOT_TCP
    assert read(ethernet(b"\xaa\xaa\3" + bytes(40), ethertype=60))[0] == NOT_TCP
    assert read(ethernet(ip("10.0.0.1", "10.0.0.2", 1, bytes(8))))[0] == NOT_TCP
    assert read(ethernet(ip("::1", "::2", 58, bytes(8))))[0] == NOT_TCP
    assert read(ethernet(ip("::1", "::2", 59, b"")))[0] == NOT_TCP
    assert read(struct.pack("<I", 7) + V4, 0)[0] == NOT_TCP
    assert read(b"\xc0\x21" + bytes(40), 9)[0] == NOT_TCP


def test_headers_that_are_wrong() -> None:
    assert read(ethernet(b"\x41" + V4[1:]))[0] == MALFORMED  # IPv4 header of 4 bytes
    assert read(ethernet(b"\x75" + V4[1:]))[0] == MALFORMED  # IP version 7
    assert read(ethernet(V4[:32] + b"\x10" + V4[33:]))[0] == MALFORMED  # TCP header of 4 bytes
    assert read(ethernet(V4[:2] + struct.pack(">H", 30) + V4[4:]))[0] == MALFORMED  # too short for TCP
    endless = [(60, b"\0" + bytes(6))] * ((HEAD_BYTES - 40) // 8)
    assert read(extended(*endless))[0] == MALFORMED
    assert read(b"", 101)[0] == MALFORMED
    assert read(b"", 1)[0] == MALFORMED


def test_mutated_packets_never_leave_the_packet() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        link_type, good = chance.choice(list(LINKS.values()))
        data = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        captured = chance.randrange(len(data) + 1)
        original = chance.choice([captured, len(data), 0, 0xFFFFFFFF])
        what, out = read(bytes(data[:captured]), link_type, original=original)
        assert SEGMENT <= what <= MALFORMED
        if what == SEGMENT:
            assert 0 <= out[PAYLOAD] <= captured
            assert 0 <= out[PAYLOAD_CAPTURED] <= captured - out[PAYLOAD]
            assert 0 <= out[PAYLOAD_MISSING] <= 0xFFFFFFFF


def test_dpkt_reads_the_same() -> None:
    chance = random.Random(11)
    for _ in range(500):
        v6 = chance.random() < 0.5
        hosts = ("2001:db8::1", "2001:db8::2") if v6 else ("10.0.0.1", "10.0.0.2")
        payload = chance.randbytes(chance.randrange(200))
        numbers = chance.randrange(1 << 32), chance.randrange(1 << 32)
        ports = chance.randrange(1 << 16), chance.randrange(1 << 16)
        flags, window = chance.randrange(64), chance.randrange(1 << 16)
        packet = tcp(*hosts, ports, payload, *numbers, flags, window, bytes(4 * chance.randrange(10)))
        frame = ethernet(packet, chance.choice([(), (0x8100,), (0x88A8, 0x8100)]))
        frame += bytes(max(0, 60 - len(frame)))
        segment = dpkt.ethernet.Ethernet(frame).data.data
        what, out = read(frame)
        assert what == SEGMENT
        assert (out[SOURCE_PORT], out[TARGET_PORT]) == (segment.sport, segment.dport)
        assert (out[SEQUENCE], out[ACKNOWLEDGED]) == (segment.seq, segment.ack)
        assert (out[CONTROL], out[WINDOW]) == (segment.flags, segment.win)
        assert frame[out[PAYLOAD] : out[PAYLOAD] + out[PAYLOAD_CAPTURED]] == segment.data
        assert SYN == dpkt.tcp.TH_SYN
