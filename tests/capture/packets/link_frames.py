"""One TCP segment in frames of every link type, and the reading of one packet."""

import struct

import numpy as np

from kdissect.capture.packets.headers import (
    SEGMENT_FIELDS,
    read_packet,
)
from kdissect.capture.packets.link_layer import LINK_TABLE
from tests.helpers.crafted_packets import ACK, ethernet, tcp

V4 = tcp("10.1.2.3", "192.168.0.9", (1234, 9092), b"payload", 0xFFFFFFF0, 77, ACK | 8, 333)


V6 = tcp("2001:db8::1", "fe80::2", (1234, 9092), b"payload", 0xFFFFFFF0, 77, ACK | 8, 333)


def read(
    data: bytes, link_type: int = 1, captured: int | None = None, original: int | None = None
) -> tuple[int, list[int]]:
    """Read one packet that lies in the middle of a buffer; give what it is and the segment."""
    out = np.full(SEGMENT_FIELDS, -7, dtype=np.int64)
    captured = len(data) if captured is None else captured
    buffer = np.frombuffer(b"\xff" * 33 + data + b"\xff" * 64, dtype=np.uint8)
    kind, type_at, skip = LINK_TABLE[link_type].tolist()
    what = read_packet(
        buffer, 33, captured, captured if original is None else original, kind, type_at, skip, out
    )
    return int(what), out.tolist()


LINKS = {
    "Ethernet": (1, ethernet(V4)),
    "Ethernet, IPv6": (1, ethernet(V6)),
    "Ethernet, padded": (1, ethernet(V4) + bytes(100)),
    "VLAN": (1, ethernet(V4, (0x8100,))),
    "VLAN in VLAN": (1, ethernet(V6, (0x88A8, 0x8100))),
    "old VLAN tags": (1, ethernet(V4, (0x9100, 0x9200, 0x8100))),
    "PPPoE": (1, ethernet(b"\x11\0\0\1\0\x40\x00\x21" + V4, ethertype=0x8864)),
    "PPPoE, IPv6": (1, ethernet(b"\x11\0\0\1\0\x40\x00\x57" + V6, (0x8100,), ethertype=0x8864)),
    "MPLS": (1, ethernet(struct.pack(">II", 17 << 12 | 64, 18 << 12 | 0x100 | 64) + V4, ethertype=0x8847)),
    "cooked": (113, struct.pack(">HHH8sH", 0, 772, 6, b"", 0x0800) + V4),
    "cooked, VLAN": (113, struct.pack(">HHH8sHHH", 0, 1, 6, b"", 0x8100, 5, 0x86DD) + V6),
    "cooked v2": (276, struct.pack(">HHIHBB8s", 0x86DD, 0, 1, 772, 0, 6, b"") + V6),
    "loopback, little-endian": (0, struct.pack("<I", 2) + V4),
    "loopback, big-endian": (0, struct.pack(">I", 2) + V4),
    "loopback, FreeBSD IPv6": (0, struct.pack("<I", 28) + V6),
    "loopback, macOS IPv6": (0, struct.pack("<I", 30) + V6),
    "loopback, NetBSD IPv6": (0, struct.pack(">I", 24) + V6),
    "OpenBSD loopback": (108, struct.pack(">I", 24) + V6),
    "raw": (101, V4),
    "raw, IPv6": (101, V6),
    "raw (12)": (12, V4),
    "raw (14)": (14, V6),
    "raw IPv4": (228, V4),
    "raw IPv6": (229, V6),
    "PPP": (9, b"\x00\x21" + V4),
    "PPP, compressed protocol": (9, b"\x21" + V4),
    "PPP in HDLC framing": (50, b"\xff\x03\x00\x57" + V6),
    "PPP over Ethernet": (51, b"\x11\0\0\1\0\x40\x00\x21" + V4),
    "Cisco HDLC": (104, b"\x0f\0\x08\0" + V4),
}
