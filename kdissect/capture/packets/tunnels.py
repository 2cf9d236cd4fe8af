"""Tunnels: the packet inside another packet, behind an IP header that is not followed by TCP.

`behind_tunnel` takes an IP protocol and the position of its header. It returns the position of the IP header
inside, NOT_IP if no known tunnel begins there, or CUT_OFF if the bytes end too early. It removes one layer;
the caller continues as with the first IP header, for at most MOST_NESTED layers. The network of a tunnel
(VNI, key, session, TEID) is ignored: the 4-tuple inside names the connection.
"""

from kdissect.array_types import Bytes
from kdissect.capture.formats.record_table import u8, u16
from kdissect.capture.packets.link_layer import (
    CUT_OFF,
    MPLS,
    NOT_IP,
    behind_ethernet,
    behind_ethertype,
    behind_ppp,
)
from kdissect.jit.decorators import jit_inner

MOST_NESTED = 8  # IP headers before that of TCP

IN_IPV4, IN_IPV6, UDP, GRE, ETHERNET_IN_IP, MPLS_IN_IP = 4, 41, 17, 47, 97, 137

# Ports of UDP tunnels. Linux used 8472 for VXLAN before IANA chose 4789; some networks still do.
VXLAN, OLD_VXLAN, VXLAN_GPE, GENEVE, GTP_USER, MPLS_IN_UDP = 4789, 8472, 4790, 6081, 2152, 6635

# Protocol types of GRE beyond ethertypes.
TRANSPARENT_ETHERNET, ERSPAN_II, ERSPAN_III, GRE_PPP = 0x6558, 0x88BE, 0x22EB, 0x880B

GTP_PACKET = 0xFF  # message type of a user's packet (3GPP TS 29.281, section 7)


@jit_inner
def behind_tunnel(data: Bytes, protocol: int, start: int, end: int) -> int:
    """Return where the inner IP header of a tunnel that begins at `start` lies, or NOT_IP."""
    behind = NOT_IP
    if protocol == IN_IPV4 or protocol == IN_IPV6:
        behind = start
    elif protocol == UDP:
        behind = _behind_udp(data, start, end)
    elif protocol == GRE:
        behind = _behind_gre(data, start, end)
    elif protocol == ETHERNET_IN_IP:  # RFC 3378: two bytes of version
        behind = behind_ethernet(data, start + 2, end)
    elif protocol == MPLS_IN_IP:
        behind = behind_ethertype(data, start, end, MPLS)
    return int(behind)


@jit_inner
def _behind_udp(data: Bytes, start: int, end: int) -> int:
    """Return where the inner header begins.

    The destination port names the tunnel (RFC 7348, 8926, 7510, 3GPP TS 29.281).
    """
    if start + 16 > end:
        return NOT_IP
    port, body = u16(data, start + 2, True), start + 8
    behind = NOT_IP
    if port == VXLAN or port == OLD_VXLAN:
        if u8(data, body) & 8:
            behind = behind_ethernet(data, body + 8, end)
    elif port == GENEVE:
        if u8(data, body) >> 6 == 0:
            kind, body = u16(data, body + 2, True), body + 8 + 4 * (u8(data, body) & 63)
            behind = _behind_type(data, body, end, kind)
    elif port == GTP_USER:
        behind = _behind_gtp(data, body, end)
    elif port == VXLAN_GPE:
        following, body = u8(data, body + 3), body + 8
        if following == 1 or following == 2:  # IPv4, IPv6
            behind = body
        elif following == 3:
            behind = behind_ethernet(data, body, end)
    elif port == MPLS_IN_UDP:
        behind = behind_ethertype(data, body, end, MPLS)
    return int(behind)


@jit_inner
def _behind_type(data: Bytes, start: int, end: int, kind: int) -> int:
    """Return where IP begins behind a protocol type, which may be that of Ethernet itself."""
    if kind == TRANSPARENT_ETHERNET:
        return int(behind_ethernet(data, start, end))
    return int(behind_ethertype(data, start, end, kind))


@jit_inner
def _behind_gtp(data: Bytes, start: int, end: int) -> int:
    """Return where the packet behind GTP-U version 1 and extensions begins (3GPP TS 29.281, section 5)."""
    flags = u8(data, start)
    if flags >> 4 != 3 or u8(data, start + 1) != GTP_PACKET:
        return NOT_IP
    behind = start + 8
    if flags & 7:
        behind += 4
        while behind < end and u8(data, behind - 1):
            behind += max(4, 4 * u8(data, behind))
    if behind >= end:
        return CUT_OFF
    version = u8(data, behind) >> 4
    return behind if version == 4 or version == 6 else NOT_IP


@jit_inner
def _behind_gre(data: Bytes, start: int, end: int) -> int:
    """Return where the packet behind a GRE header begins (RFC 2784, RFC 2890; RFC 2637 for version 1)."""
    if start + 8 > end:
        return CUT_OFF
    flags, kind = u16(data, start, True), u16(data, start + 2, True)
    version, behind = flags & 7, start + 4
    if version > 1 or flags & 0x4000:  # routing, which RFC 2784 took away
        return NOT_IP
    behind += 4 if flags & 0x8000 else 0  # checksum
    behind += 4 if flags & 0x2000 else 0  # key
    behind += 4 if flags & 0x1000 else 0  # sequence number
    if version == 1:
        behind += 4 if flags & 0x80 else 0  # acknowledgement
        return int(behind_ppp(data, behind, end)) if kind == GRE_PPP else NOT_IP
    if kind == ERSPAN_II:
        # With a sequence number there is an ERSPAN header of 8 bytes (type II), without there is none (type
        # I).
        return int(behind_ethernet(data, behind + (8 if flags & 0x1000 else 0), end))
    if kind == ERSPAN_III:
        return int(_behind_erspan(data, behind, end))
    return int(_behind_type(data, behind, end, kind))


@jit_inner
def _behind_erspan(data: Bytes, start: int, end: int) -> int:
    """Return where the frame behind an ERSPAN type III header begins.

    The header has 12 bytes, and 8 more if its last bit is set.
    """
    if start + 12 > end:
        return CUT_OFF
    load = u8(data, start + 10) >> 2 & 31
    behind = start + (20 if u8(data, start + 11) & 1 else 12)
    if load == 2:  # IP without a link header
        return behind
    return int(behind_ethernet(data, behind, end)) if load == 0 else NOT_IP
