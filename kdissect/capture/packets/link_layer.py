"""From the first byte of a packet to its IP header: link layers, and the layers between them and IP.

Each function takes the position of a header and returns that of the IP header behind it, NOT_IP, or CUT_OFF
if the bytes end too early. VLAN and other tags (in any number), PPPoE sessions, MPLS labels and Ethernet
inside MPLS, with a control word or without, are skipped. Bytes from `end` on are not read.
"""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats.record_table import u8, u16, u32
from kdissect.jit.decorators import jit_inner

NOT_IP, CUT_OFF = -1, -2

# How to find the network layer behind a link header: kinds of LINK_TYPES.
BY_ETHERTYPE, BY_FAMILY, BY_VERSION, BY_PPP = range(4)

IPV4, IPV6, VLAN, MPLS, MPLS_UPSTREAM, PPPOE = 0x0800, 0x86DD, 0x8100, 0x8847, 0x8848, 0x8864
PROVIDER_VLAN, OLD_VLAN, OLDER_VLAN = 0x88A8, 0x9100, 0x9200
BACKBONE, PORT_EXTENDER, VIRTUAL_PORT = 0x88E7, 0x893F, 0x8926  # IEEE 802.1ah, IEEE 802.1BR, Cisco's VN-Tag
MOST_PADDING = 64  # bytes: to the shortest frame of Ethernet, and its checksum
PPP_IPV4, PPP_IPV6 = 0x0021, 0x0057


@jit_inner
def behind_link(data: Bytes, at: int, end: int, kind: int, type_at: int, skip: int) -> int:
    """Return where the header behind the link header of the packet at `at` begins.

    The last three arguments are a row of LINK_TABLE.
    """
    start = at + skip
    if start > end:
        start = CUT_OFF
    elif kind == BY_ETHERTYPE:
        start = behind_ethertype(data, start, end, u16(data, at + type_at, True))
    elif kind == BY_FAMILY:
        start = _behind_family(data, start)
    elif kind == BY_PPP:
        start = behind_ppp(data, start, end)
    return int(start)


@jit_inner
def behind_ethernet(data: Bytes, start: int, end: int) -> int:
    """Return where the header behind an Ethernet header begins."""
    if start + 14 > end:
        return CUT_OFF
    return int(behind_ethertype(data, start + 14, end, u16(data, start + 12, True)))


@jit_inner
def _is_vlan(ethertype: int) -> bool:
    return ethertype == VLAN or ethertype == PROVIDER_VLAN or ethertype == OLD_VLAN or ethertype == OLDER_VLAN


@jit_inner
def _tag_size(ethertype: int) -> int:
    """Return how many bytes a tag takes, with the next ethertype; 0 if this ethertype is no tag."""
    if _is_vlan(ethertype):
        return 4
    if ethertype == VIRTUAL_PORT:
        return 6
    if ethertype == PORT_EXTENDER:
        return 8
    return 18 if ethertype == BACKBONE else 0  # which holds the customer's frame, addresses first


@jit_inner
def _is_mpls(ethertype: int) -> bool:
    return ethertype == MPLS or ethertype == MPLS_UPSTREAM


@jit_inner
def behind_ethertype(data: Bytes, start: int, end: int, ethertype: int) -> int:
    """Return where IP begins, from the position behind an ethertype on."""
    behind = CUT_OFF
    while behind == CUT_OFF:
        if ethertype == IPV4 or ethertype == IPV6:
            behind = start
        elif _tag_size(ethertype) > 0:
            start += _tag_size(ethertype)
            if start > end:
                return CUT_OFF
            ethertype = u16(data, start - 2, True)
        elif ethertype == PPPOE:
            return int(behind_ppp(data, start + 6, end))
        elif _is_mpls(ethertype):
            bottom = _behind_labels(data, start, end)
            if bottom < 0:
                return CUT_OFF
            frame = _frame_behind_labels(data, bottom, end)
            if frame >= 0:
                ethertype, start = u16(data, frame + 12, True), frame + 14
            else:
                behind = bottom if u8(data, bottom) >> 4 in (4, 6) else NOT_IP
        else:
            behind = NOT_IP
    return int(behind)


@jit_inner
def _behind_labels(data: Bytes, start: int, end: int) -> int:
    """Return where the label stack ends (RFC 3032). The stack does not name the next protocol."""
    bottom = 0
    while bottom == 0 and start + 4 < end:
        bottom = u8(data, start + 2) & 1
        start += 4
    return start if bottom else CUT_OFF


@jit_inner
def _frame_behind_labels(data: Bytes, start: int, end: int) -> int:
    """Return where the Ethernet frame of a pseudowire begins behind a label stack (RFC 4448), or NOT_IP.

    A control word, whose first four bits are 0 (RFC 4385), may stand before the frame. Without one the frame
    may begin with any bits, also with those of an IP version. Bits that lead to IP are taken for a frame. If
    they may be an IP header as well, lengths decide: the IP header in the frame must have the length of the
    packet, and the other one must not.
    """
    first, inside = u8(data, start), _ip_in_frame(data, start, end)
    if first >> 4 == 0:
        if start + 18 <= end and (_ip_in_frame(data, start + 4, end) >= 0 or inside < 0):
            return start + 4
        return start if inside >= 0 else NOT_IP
    may_be_ip = first >= 0x45 and (first >> 4 == 4 or first >> 4 == 6)
    is_frame = inside >= 0 and (
        not may_be_ip or (_has_length(data, inside, end) and not _has_length(data, start, end))
    )
    return start if is_frame else NOT_IP


@jit_inner
def _ip_in_frame(data: Bytes, start: int, end: int) -> int:
    """Return where the IP header begins in a possible Ethernet frame with VLAN tags, or NOT_IP."""
    at = start + 12
    while at + 6 < end and _is_vlan(u16(data, at, True)):
        at += 4
    if at + 2 >= end:
        return NOT_IP
    ethertype, first = u16(data, at, True), u8(data, at + 2)
    is_ip = (ethertype == IPV4 and 0x45 <= first < 0x50) or (ethertype == IPV6 and first >> 4 == 6)
    return at + 2 if is_ip else NOT_IP


@jit_inner
def _has_length(data: Bytes, start: int, end: int) -> bool:
    """Return whether a packet with TCP ends where the IP header at `start` states, apart from padding."""
    if start + 6 > end:
        return False
    header, length = 20, u16(data, start + 2, True)
    if u8(data, start) >> 4 == 6:
        header, length = 40, 40 + u16(data, start + 4, True)
    return bool(header + 20 <= length <= end - start <= length + MOST_PADDING)


@jit_inner
def _behind_family(data: Bytes, start: int) -> int:
    """Return where IP begins behind a BSD address family, or NOT_IP.

    The family is in the byte order of the capturing host. IPv4 is 2; the number of IPv6 depends on the
    system.
    """
    family = u32(data, start - 4, False)
    if family > 0xFFFF:
        family = u32(data, start - 4, True)
    return start if family == 2 or family == 10 or family == 24 or family == 28 or family == 30 else NOT_IP


@jit_inner
def behind_ppp(data: Bytes, start: int, end: int) -> int:
    """Return where the header behind a PPP header begins, with or without HDLC framing."""
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


class LinkType(NamedTuple):
    """A link layer: its name, how and at which offset its header names the network layer, and its length."""

    name: str
    kind: int
    type_at: int
    skip: int


# https://www.tcpdump.org/linktypes.html
LINK_TYPES = {
    0: LinkType("loopback (BSD)", BY_FAMILY, 0, 4),
    1: LinkType("Ethernet", BY_ETHERTYPE, 12, 14),
    9: LinkType("PPP", BY_PPP, 0, 0),
    12: LinkType("raw IP", BY_VERSION, 0, 0),
    14: LinkType("raw IP", BY_VERSION, 0, 0),
    50: LinkType("PPP in HDLC framing", BY_PPP, 0, 0),
    51: LinkType("PPP over Ethernet", BY_PPP, 0, 6),
    101: LinkType("raw IP", BY_VERSION, 0, 0),
    104: LinkType("Cisco HDLC", BY_ETHERTYPE, 2, 4),
    108: LinkType("loopback (OpenBSD)", BY_FAMILY, 0, 4),
    113: LinkType("Linux cooked", BY_ETHERTYPE, 14, 16),
    228: LinkType("raw IPv4", BY_VERSION, 0, 0),
    229: LinkType("raw IPv6", BY_VERSION, 0, 0),
    276: LinkType("Linux cooked 2", BY_ETHERTYPE, 0, 20),
}


def _link_table() -> Int64s:
    table = np.full((1 + max(LINK_TYPES), 3), -1, dtype=np.int64)
    for number, link_type in LINK_TYPES.items():
        table[number] = link_type[1:]
    return table


KIND, TYPE_AT, SKIP = range(3)
LINK_TABLE = _link_table()  # row by link type; KIND is -1 where it is not known
