"""Captures and packets made by hand, byte for byte, for the tests of the capture front."""

import struct
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path

from kdissect.capture.index.index import CaptureIndex, index_captures
from kdissect.capture.inputs import CaptureFile

FIN, SYN, RST, PUSH, ACK = 1, 2, 4, 8, 16

Packet = tuple[int, int, bytes]  # seconds, fraction in ticks, bytes


def tcp(
    source: str = "10.0.0.1",
    target: str = "10.0.0.2",
    ports: tuple[int, int] = (40000, 9092),
    payload: bytes = b"",
    seq: int = 1000,
    ack: int = 0,
    flags: int = ACK,
    window: int = 512,
    options: bytes = b"",
    identification: int = 7,
) -> bytes:
    """Return an IP packet with a TCP segment."""
    header = struct.pack(">HHIIBBHHH", *ports, seq, ack, (20 + len(options)) // 4 << 4, flags, window, 0, 0)
    return ip(source, target, 6, header + options + payload, identification=identification)


def ip(
    source: str,
    target: str,
    protocol: int,
    body: bytes,
    fragment: int = 0,
    options: bytes = b"",
    identification: int = 7,
) -> bytes:
    """Return an IPv4 or IPv6 packet, as the addresses say."""
    a, b = ip_address(source), ip_address(target)
    if a.version == 6:
        return struct.pack(">IHBB", 6 << 28, len(body), protocol, 64) + a.packed + b.packed + body
    first = 0x40 | (20 + len(options)) // 4
    length = 20 + len(options) + len(body)
    header = struct.pack(">BBHHHBBH", first, 0, length, identification, fragment, 64, protocol, 0)
    return header + a.packed + b.packed + options + body


def ethernet(packet: bytes, tags: Sequence[int] = (), ethertype: int | None = None) -> bytes:
    """Put an IP packet in an Ethernet frame, behind VLAN tags of the given ethertypes."""
    kind = ethertype if ethertype is not None else 0x0800 if packet[:1] and packet[0] >> 4 == 4 else 0x86DD
    between = b"".join(struct.pack(">HH", tag, 100 + i) for i, tag in enumerate(tags))
    return bytes(6) + b"\2\0\0\0\0\1" + between + struct.pack(">H", kind) + packet


def pcap(
    packets: Iterable[Packet],
    order: str = "<",
    magic: int = 0xA1B2C3D4,
    link_type: int = 1,
    snap: int = 262144,
) -> bytes:
    """Return a pcap file; `fraction` of a packet is in the ticks of the magic number."""
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link_type)]
    extra = bytes(8) if magic in (0xA1B2CD34, 0xA1B23C34) else b""
    for seconds, fraction, data in packets:
        out += struct.pack(order + "IIII", seconds, fraction, len(data), len(data)), extra, data
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return one pcapng block, padded."""
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """Return one pcapng option, padded."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<") -> bytes:
    """Return a section header block."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(order: str = "<", link_type: int = 1, snap: int = 0, options: bytes = b"") -> bytes:
    """Return an interface description block."""
    return block(1, struct.pack(order + "HHI", link_type, 0, snap) + options, order)


def enhanced(
    ticks: int, data: bytes, order: str = "<", number: int = 0, original: int | None = None
) -> bytes:
    """Return an enhanced packet block."""
    wire = len(data) if original is None else original
    body = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire) + data
    return block(6, body + bytes(-len(data) % 4), order)


def survey_bytes(folder: Path, data: bytes, name: str = "made.pcap", **options: int) -> CaptureIndex:
    """Write a capture and survey it."""
    path = folder / name
    path.write_bytes(data)
    return index_captures([CaptureFile(str(path), name)], **options)
