"""One packet: link layer, IP, TCP, down to where the payload lies.

`read_packet` is given the packet's bytes as far as they are in the buffer and fills one row of integers; it never looks
further than HEAD_BYTES into a packet, so that headers longer than that are malformed, whatever the buffer holds. Lengths on
the wire are taken from IP (Ethernet pads short packets); where IP gives none (a length of 0: segmentation offload), from
the capture. Header checksums are not verified: offloading leaves them empty in captures.

IP fragments are told apart and not put together: TCP avoids them (RFC 9293, section 3.7.1).
"""

from typing import NamedTuple

import numpy as np

from kdissect.capture.records import Bytes, Int64s, u8, u16, u32
from kdissect.kernel import jit_flat, jit_inner

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
PROVIDER_VLAN, OLD_VLAN, OLDER_VLAN = 0x88A8, 0x9100, 0x9200
PPP_IPV4, PPP_IPV6 = 0x0021, 0x0057


@jit_flat
def read_packet(
    data: Bytes, at: int, captured: int, original: int, kind: int, type_at: int, skip: int, out: Int64s
) -> int:
    """Read the packet of `captured` bytes at data[at:] into `out` (SOURCE …); give what it is.

    `kind`, `type_at` and `skip` are of the packet's link type: how its header tells the network layer, where, and
    the length of that header.
    """
    end = at + min(captured, HEAD_BYTES)
    start = at + skip
    if start > end:
        start = CUT_OFF
    elif kind == BY_ETHERTYPE:
        start = _behind_ethertype(data, start, end, u16(data, at + type_at, True))
    elif kind == BY_FAMILY:
        start = _behind_family(data, start)
    elif kind == BY_PPP:
        start = _behind_ppp(data, start, end)
    what = NOT_TCP if start == NOT_IP else MALFORMED
    if 0 <= start < end:
        version = u8(data, start) >> 4
        wire = max(captured, original) - (start - at)
        if version == 4:
            what = _read_ipv4(data, at, start, end, captured, wire, out)
        elif version == 6:
            what = _read_ipv6(data, at, start, end, captured, wire, out)
    return int(what)


# The next functions give the position of the IP header, or one of these.
NOT_IP, CUT_OFF = -1, -2


@jit_inner
def _is_vlan(ethertype: int) -> bool:
    return ethertype == VLAN or ethertype == PROVIDER_VLAN or ethertype == OLD_VLAN or ethertype == OLDER_VLAN


@jit_inner
def _behind_ethertype(data: Bytes, start: int, end: int, ethertype: int) -> int:
    while _is_vlan(ethertype) and start + 4 <= end:
        ethertype = u16(data, start + 2, True)
        start += 4
    behind = NOT_IP
    if ethertype == IPV4 or ethertype == IPV6:
        behind = start
    elif ethertype == PPPOE:
        behind = _behind_ppp(data, start + 6, end)
    elif ethertype == MPLS or ethertype == MPLS_UPSTREAM:
        behind = _behind_mpls(data, start, end)
    elif _is_vlan(ethertype):
        behind = CUT_OFF
    return int(behind)


@jit_inner
def _behind_mpls(data: Bytes, start: int, end: int) -> int:
    """Pass over labels up to the bottom of the stack (RFC 3032); what follows is not told, so it must look like IP."""
    bottom = 0
    while bottom == 0 and start + 4 < end:
        bottom = u8(data, start + 2) & 1
        start += 4
    version = u8(data, start) >> 4 if bottom else 0
    return start if version == 4 or version == 6 else NOT_IP if bottom else CUT_OFF


@jit_inner
def _behind_family(data: Bytes, start: int) -> int:
    """Read the address family of the BSDs, in the byte order of whoever captured: 2 is IPv4 everywhere, IPv6 differs."""
    family = u32(data, start - 4, False)
    if family > 0xFFFF:
        family = u32(data, start - 4, True)
    return start if family == 2 or family == 10 or family == 24 or family == 28 or family == 30 else NOT_IP


@jit_inner
def _behind_ppp(data: Bytes, start: int, end: int) -> int:
    behind = CUT_OFF
    if start + 4 <= end:
        if u16(data, start, True) == 0xFF03:  # address and control of HDLC framing (RFC 1662)
            start += 2
        protocol, behind = u8(data, start), start + 1
        if protocol & 1 == 0:  # else compressed to one byte (RFC 1661, section 6.5)
            protocol, behind = u16(data, start, True), start + 2
        if protocol != PPP_IPV4 and protocol != PPP_IPV6:
            behind = NOT_IP
    return int(behind)


# The next functions are given the bytes that were on the wire from `start` on, or that the capture supposes there were.


@jit_inner
def _read_ipv4(data: Bytes, at: int, start: int, end: int, captured: int, wire: int, out: Int64s) -> int:
    header = (u8(data, start) & 15) * 4
    what = MALFORMED
    if 20 <= header <= end - start:
        if u8(data, start + 9) != TCP:
            what = NOT_TCP
        elif u16(data, start + 6, True) & 0x3FFF:  # more fragments, or not the first
            what = FRAGMENT
        else:
            for side in range(2):
                out[SOURCE + 4 * side] = 0
                out[SOURCE + 4 * side + 1] = 0
                out[SOURCE + 4 * side + 2] = 0xFFFF
                out[SOURCE + 4 * side + 3] = u32(data, start + 12 + 4 * side, True)
            total = u16(data, start + 2, True)
            what = _read_tcp(data, at, start + header, end, captured, (total or wire) - header, out)
    return int(what)


@jit_inner
def _read_ipv6(data: Bytes, at: int, start: int, end: int, captured: int, wire: int, out: Int64s) -> int:
    what, position = MALFORMED, start + 40
    if position <= end:
        for word in range(8):
            out[SOURCE + word] = u32(data, start + 8 + 4 * word, True)
        total = u16(data, start + 4, True)  # 0: a jumbogram (RFC 2675) or offloading
        if total:
            wire = 40 + total
        following, fragment = u8(data, start + 6), False
        while _is_extension(following) and position + 8 <= end and not fragment:
            if following == FRAGMENT_HEADER and u16(data, position + 2, True) & 0xFFF9:
                what, fragment = FRAGMENT if u8(data, position) == TCP else NOT_TCP, True
            else:
                size = _extension_length(following, u8(data, position + 1))
                following = u8(data, position)
                position += size
        if following == TCP:
            what = _read_tcp(data, at, position, end, captured, wire - (position - start), out)
        elif not _is_extension(following):
            what = NOT_TCP
    return int(what)


@jit_inner
def _is_extension(kind: int) -> bool:
    return (
        kind == HOP_BY_HOP
        or kind == ROUTING
        or kind == FRAGMENT_HEADER
        or kind == AUTHENTICATION
        or kind == DESTINATION
        or kind == MOBILITY
        or kind == HIP
        or kind == SHIM6
    )


@jit_inner
def _extension_length(kind: int, length: int) -> int:
    """Give the bytes of an IPv6 extension header whose length field is `length` (RFC 8200, RFC 4302)."""
    size = 8 + 8 * length
    if kind == FRAGMENT_HEADER:
        size = 8
    elif kind == AUTHENTICATION:
        size = 8 + 4 * length
    return size


@jit_inner
def _read_tcp(data: Bytes, at: int, start: int, end: int, captured: int, wire: int, out: Int64s) -> int:
    what = MALFORMED
    if start + 20 <= end:
        header = (u8(data, start + 12) >> 4) * 4
        if 20 <= header <= wire:
            out[SOURCE_PORT] = u16(data, start, True)
            out[TARGET_PORT] = u16(data, start + 2, True)
            out[SEQUENCE] = u32(data, start + 4, True)
            out[ACKNOWLEDGED] = u32(data, start + 8, True)
            out[CONTROL] = u8(data, start + 13)
            out[WINDOW] = u16(data, start + 14, True)
            payload = min(start + header - at, captured)
            kept = min(wire - header, captured - payload)
            out[PAYLOAD] = payload
            out[PAYLOAD_CAPTURED] = kept
            out[PAYLOAD_MISSING] = wire - header - kept
            what = SEGMENT
    return what


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
