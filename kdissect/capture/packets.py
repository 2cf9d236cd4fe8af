"""One packet: link layer, IP, TCP, down to where the payload lies.

`read_packet` is given the packet's bytes as far as they are in the buffer and fills one row of integers; it never looks
further than HEAD_BYTES into a packet, so that headers longer than that are malformed, whatever the buffer holds. Lengths on
the wire are taken from IP (Ethernet pads short packets); where IP gives none (a length of 0: segmentation offload), from
the capture. Header checksums are not verified: offloading leaves them empty in captures.

IP fragments are told apart and not put together: TCP avoids them (RFC 9293, section 3.7.1).
"""

from typing import NamedTuple

import numpy as np

from kdissect.capture.records import Bytes, Int64s, u16, u32
from kdissect.kernel import jit

HEAD_BYTES = 512  # link, VLAN, IPv6 extension and TCP headers of any real packet

# Columns of a segment. Addresses are four 32-bit words each, most significant first; IPv4 is ::ffff:a.b.c.d.
(
    SOURCE,
    SOURCE_1,
    SOURCE_2,
    SOURCE_3,
    TARGET,
    TARGET_1,
    TARGET_2,
    TARGET_3,
    SOURCE_PORT,
    TARGET_PORT,
    SEQUENCE,
    ACKNOWLEDGED,
    CONTROL,  # the flags byte of TCP
    WINDOW,
    PAYLOAD,  # where the payload begins, from the packet's first byte
    PAYLOAD_CAPTURED,
    PAYLOAD_MISSING,
    SEGMENT_FIELDS,
) = range(18)

# What a packet is. The order is that of `pieces.Counts` from `tcp` on.
SEGMENT, FILTERED, NOT_TCP, FRAGMENT, UNKNOWN_LINK, MALFORMED = range(6)

CONTROL_FIN, CONTROL_SYN, CONTROL_RST, CONTROL_ACK = 1, 2, 4, 16

# How to find the network layer behind a link header: kinds of LINK_TYPES.
BY_ETHERTYPE, BY_FAMILY, BY_VERSION, BY_PPP = range(4)

TCP = 6
HOP_BY_HOP, ROUTING, FRAGMENT_HEADER, AUTHENTICATION, DESTINATION, MOBILITY, HIP, SHIM6 = (
    0,
    43,
    44,
    51,
    60,
    135,
    139,
    140,
)
IPV4, IPV6, VLAN, MPLS, MPLS_UPSTREAM, PPPOE = 0x0800, 0x86DD, 0x8100, 0x8847, 0x8848, 0x8864
PROVIDER_VLAN, OLD_PROVIDER_VLAN, OLDER_PROVIDER_VLAN = 0x88A8, 0x9100, 0x9200
PPP_IPV4, PPP_IPV6 = 0x0021, 0x0057


@jit
def read_packet(
    data: Bytes, at: int, captured: int, original: int, kind: int, type_at: int, skip: int, out: Int64s
) -> int:
    """Read the packet of `captured` bytes at data[at:] into `out` (SOURCE … PAYLOAD_MISSING); give what it is.

    `kind`, `type_at` and `skip` are of the packet's link type: how its header tells the network layer, where, and
    the length of that header.
    """
    end = at + min(captured, HEAD_BYTES)
    start = at + skip
    if start > end:
        return MALFORMED
    if kind == BY_ETHERTYPE:
        start = _behind_ethertype(data, start, end, u16(data, at + type_at, True))
    elif kind == BY_FAMILY:
        start = _behind_family(data, start)
    elif kind == BY_PPP:
        start = _behind_ppp(data, start, end)
    if start < 0:
        return NOT_TCP if start == -1 else MALFORMED
    if start >= end:
        return MALFORMED
    version = data[start] >> 4
    if version == 4:
        return int(_read_ipv4(data, at, start, end, captured, original, out))
    if version == 6:
        return int(_read_ipv6(data, at, start, end, captured, original, out))
    return MALFORMED


# The functions below give the position of the IP header, -1: something else than IP, -2: the header is cut off.


@jit
def _behind_ethertype(data: Bytes, start: int, end: int, ethertype: int) -> int:
    while (
        ethertype == VLAN
        or ethertype == PROVIDER_VLAN
        or ethertype == OLD_PROVIDER_VLAN
        or ethertype == OLDER_PROVIDER_VLAN
    ):
        if start + 4 > end:
            return -2
        ethertype = u16(data, start + 2, True)
        start += 4
    if ethertype == IPV4 or ethertype == IPV6:
        return start
    if ethertype == PPPOE:
        return int(_behind_ppp(data, start + 6, end))
    if ethertype == MPLS or ethertype == MPLS_UPSTREAM:
        while start + 4 <= end:
            start += 4
            if data[start - 2] & 1:
                return start if start < end and (data[start] >> 4 == 4 or data[start] >> 4 == 6) else -1
        return -2
    return -1


@jit
def _behind_family(data: Bytes, start: int) -> int:
    """Read the address family of the BSDs, in the byte order of whoever captured: 2 is IPv4 everywhere, IPv6 is not."""
    family = u32(data, start - 4, False)
    if family > 0xFFFF:
        family = u32(data, start - 4, True)
    return start if family == 2 or family == 24 or family == 28 or family == 30 or family == 10 else -1


@jit
def _behind_ppp(data: Bytes, start: int, end: int) -> int:
    if start + 4 > end:
        return -2
    if data[start] == 0xFF and data[start + 1] == 0x03:  # address and control of HDLC framing (RFC 1662)
        start += 2
    protocol = np.int64(data[start])
    if protocol & 1:  # compressed to one byte (RFC 1661, section 6.5)
        start += 1
    else:
        protocol = u16(data, start, True)
        start += 2
    return start if protocol == PPP_IPV4 or protocol == PPP_IPV6 else -1


@jit
def _read_ipv4(data: Bytes, at: int, start: int, end: int, captured: int, original: int, out: Int64s) -> int:
    header = (np.int64(data[start]) & 15) * 4
    if start + header > end or header < 20:
        return MALFORMED
    if data[start + 9] != TCP:
        return NOT_TCP
    if u16(data, start + 6, True) & 0x3FFF:  # more fragments, or not the first
        return FRAGMENT
    for side, position in ((SOURCE, start + 12), (TARGET, start + 16)):
        out[side], out[side + 1], out[side + 2] = 0, 0, 0xFFFF
        out[side + 3] = u32(data, position, True)
    total = u16(data, start + 2, True)
    wire = total if total else max(captured, original) - (start - at)
    return int(_read_tcp(data, at, start + header, end, captured, wire - header, out))


@jit
def _read_ipv6(data: Bytes, at: int, start: int, end: int, captured: int, original: int, out: Int64s) -> int:
    if start + 40 > end:
        return MALFORMED
    following, position = np.int64(data[start + 6]), start + 40
    while following != TCP:
        if (
            following == HOP_BY_HOP
            or following == ROUTING
            or following == DESTINATION
            or following == MOBILITY
            or following == HIP
            or following == SHIM6
        ):
            unit, least = 8, 8
        elif following == AUTHENTICATION:
            unit, least = 4, 8
        elif following == FRAGMENT_HEADER:
            unit, least = 0, 8
        else:
            return NOT_TCP
        if position + 8 > end:
            return MALFORMED
        if following == FRAGMENT_HEADER and u16(data, position + 2, True) & 0xFFF9:
            return FRAGMENT if data[position] == TCP else NOT_TCP
        following = np.int64(data[position])
        position += least + np.int64(data[position + 1]) * unit
    for word in range(8):
        out[SOURCE + word] = u32(data, start + 8 + 4 * word, True)
    payload = u16(data, start + 4, True)  # 0: a jumbogram (RFC 2675) or offloading
    wire = 40 + payload if payload else max(captured, original) - (start - at)
    return int(_read_tcp(data, at, position, end, captured, wire - (position - start), out))


@jit
def _read_tcp(data: Bytes, at: int, start: int, end: int, captured: int, wire: int, out: Int64s) -> int:
    """Read the TCP header; `wire` bytes were on the wire from there on, header included."""
    if start + 20 > end:
        return MALFORMED
    header = (np.int64(data[start + 12]) >> 4) * 4
    if header < 20 or header > wire:
        return MALFORMED
    out[SOURCE_PORT], out[TARGET_PORT] = u16(data, start, True), u16(data, start + 2, True)
    out[SEQUENCE], out[ACKNOWLEDGED] = u32(data, start + 4, True), u32(data, start + 8, True)
    out[CONTROL], out[WINDOW] = np.int64(data[start + 13]), u16(data, start + 14, True)
    payload = min(start + header - at, captured)
    kept = min(wire - header, captured - payload)
    out[PAYLOAD], out[PAYLOAD_CAPTURED], out[PAYLOAD_MISSING] = payload, kept, wire - header - kept
    return SEGMENT


class LinkType(NamedTuple):
    """A link layer: its name, and how its header tells the network layer, where, and how long that header is."""

    name: str
    kind: int
    type_at: int
    skip: int


# https://www.tcpdump.org/linktypes.html
LINK_TYPES = {
    0: LinkType("BSD loopback", BY_FAMILY, 0, 4),
    1: LinkType("Ethernet", BY_ETHERTYPE, 12, 14),
    9: LinkType("PPP", BY_PPP, 0, 0),
    12: LinkType("raw IP", BY_VERSION, 0, 0),
    14: LinkType("raw IP", BY_VERSION, 0, 0),
    50: LinkType("PPP in HDLC framing", BY_PPP, 0, 0),
    51: LinkType("PPP over Ethernet", BY_PPP, 0, 6),
    101: LinkType("raw IP", BY_VERSION, 0, 0),
    104: LinkType("Cisco HDLC", BY_ETHERTYPE, 2, 4),
    108: LinkType("OpenBSD loopback", BY_FAMILY, 0, 4),
    113: LinkType("Linux cooked", BY_ETHERTYPE, 14, 16),
    228: LinkType("raw IPv4", BY_VERSION, 0, 0),
    229: LinkType("raw IPv6", BY_VERSION, 0, 0),
    276: LinkType("Linux cooked v2", BY_ETHERTYPE, 0, 20),
}


def _link_table() -> Int64s:
    table = np.full((1 + max(LINK_TYPES), 3), -1, dtype=np.int64)
    for number, link_type in LINK_TYPES.items():
        table[number] = link_type[1:]
    return table


KIND, TYPE_AT, SKIP = range(3)
LINK_TABLE = _link_table()  # row by link type; KIND is -1 where it is not known
