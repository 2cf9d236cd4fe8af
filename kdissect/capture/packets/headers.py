"""One packet: link layer, IP, tunnels, TCP, down to where the payload lies.

`read_packet` takes the bytes of a packet as far as they are in the buffer and fills one row of integers. It
never reads beyond HEAD_BYTES of a packet, so longer headers are malformed, whatever the buffer holds. Lengths
on the wire come from IP, since Ethernet pads short packets. If IP has none (a length of 0: segmentation
offload), they come from the outer IP header or from the capture. Header checksums are not verified, since
offloading leaves them empty in captures.

IP in tunnels is followed down to TCP; addresses are those of the innermost IP header. A packet that is part
of a fragmented datagram states which part (DATAGRAM … FRAGMENT_LENGTH). The first part is a segment whose
payload continues elsewhere; the others are FRAGMENT, and `ip_fragments` makes segments of them.
"""

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats.record_table import folded, u8, u16, u32
from kdissect.capture.packets.link_layer import (
    BY_ETHERTYPE,
    IPV4,
    NOT_IP,
    behind_link,
)
from kdissect.capture.packets.tunnels import MOST_NESTED, behind_tunnel
from kdissect.jit.decorators import jit_flat, jit_inner

HEAD_BYTES = 512  # link, VLAN, tunnel, IPv6 extension and TCP headers of any real packet

# Columns of a segment. Addresses are four 32-bit words each, most significant first; IPv4 is ::ffff:a.b.c.d.
# Places within the packet count from its first byte.
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
    PAYLOAD,  # where the payload begins
    PAYLOAD_CAPTURED,
    PAYLOAD_MISSING,
    OPTIONS,  # where TCP's options begin
    IP_ID,  # identification of the innermost IPv4 header; 0 in IPv6, which has none
    LAYERS,  # IP headers around the innermost one
    INNER_STOP,  # where the innermost IP packet ends by its own length, also beyond a fragment; 0: unknown
    DATAGRAM,  # hash of what the fragments of one datagram have in common; -1: the packet is whole
    DATAGRAM_LAYER,  # LAYERS of the fragmented header
    DATAGRAM_PROTOCOL,
    FRAGMENT_AT,  # where the fragment's part of the datagram begins
    FRAGMENT_OFFSET,  # its place in the datagram
    FRAGMENT_LENGTH,  # its bytes on the wire
    SEGMENT_FIELDS,
) = range(28)

# The class of a packet, in the order of `segment_index.Counts` from `tcp` on.
SEGMENT, FILTERED, NOT_TCP, FRAGMENT, UNKNOWN_LINK, MALFORMED = range(6)

CONTROL_FIN, CONTROL_SYN, CONTROL_RST, CONTROL_ACK = 1, 2, 4, 16

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
MALFORMED_IP, LATER_FRAGMENT = -1, -2  # instead of a protocol
PLAIN_IPV4 = 0x45  # version 4, no options
FRAGMENTED = 0x3FFF  # more fragments follow, or not the first one


@jit_flat
def read_packet(
    data: Bytes, at: int, captured: int, original: int, kind: int, type_at: int, skip: int, out: Int64s
) -> int:
    """Read the packet of `captured` bytes at data[at:] into `out` (SOURCE …).

    Return its class, such as SEGMENT.

    `kind`, `type_at` and `skip` describe the link type: how its header names the network layer, at which
    offset, and the length of that header.
    """
    end = at + min(captured, HEAD_BYTES)
    start = at + skip
    out[DATAGRAM] = -1
    if (
        kind == BY_ETHERTYPE
        and start + 20 <= end
        and u16(data, at + type_at, True) == IPV4
        and u8(data, start) == PLAIN_IPV4
        and u8(data, start + 9) == TCP
        and u16(data, start + 6, True) & FRAGMENTED == 0
        and u16(data, start + 2, True)
    ):
        # The fast path of nearly every packet; the code below would give the same result.
        _write_ipv4_ends(data, start, out)
        out[LAYERS] = 0
        wire = u16(data, start + 2, True) - 20
        return int(_read_tcp(data, at, start + 20, end, captured, wire, out))
    return int(_read_layers(data, at, end, at + max(captured, original), kind, type_at, skip, captured, out))


@jit_flat
def _read_layers(
    data: Bytes,
    at: int,
    end: int,
    stop: int,
    kind: int,
    type_at: int,
    skip: int,
    captured: int,
    out: Int64s,
) -> int:
    """Read the packet that ends at `stop` on the wire, layer by layer."""
    start = behind_link(data, at, end, kind, type_at, skip)
    layers = 0
    while 0 <= start < end and layers <= MOST_NESTED:
        out[LAYERS] = layers
        version = u8(data, start) >> 4
        protocol = MALFORMED_IP
        if version == 4:
            protocol, start, stop = _read_ipv4(data, at, start, end, stop, out)
        elif version == 6:
            protocol, start, stop = _read_ipv6(data, at, start, end, stop, out)
        if protocol == TCP:
            return int(_read_tcp(data, at, start, end, captured, stop - start, out))
        if protocol < 0:
            return FRAGMENT if protocol == LATER_FRAGMENT else MALFORMED
        start = behind_tunnel(data, protocol, start, end)
        layers += 1
    return NOT_TCP if start == NOT_IP else MALFORMED


@jit_inner
def _write_ipv4_ends(data: Bytes, start: int, out: Int64s) -> None:
    for side in range(2):
        out[SOURCE + 4 * side] = 0
        out[SOURCE + 4 * side + 1] = 0
        out[SOURCE + 4 * side + 2] = 0xFFFF
        out[SOURCE + 4 * side + 3] = u32(data, start + 12 + 4 * side, True)
    out[IP_ID] = u16(data, start + 4, True)


# The next two functions take where the packet ends on the wire. They return the protocol that IP carries,
# where its header begins, and where it ends on the wire.


@jit_inner
def _read_ipv4(data: Bytes, at: int, start: int, end: int, stop: int, out: Int64s) -> tuple[int, int, int]:
    header = (u8(data, start) & 15) * 4
    if not 20 <= header <= end - start:
        return MALFORMED_IP, start, stop
    _write_ipv4_ends(data, start, out)
    protocol, position = u8(data, start + 9), start + header
    stop = _stop_of(u16(data, start + 2, True), at, start, stop, out)
    fragment = u16(data, start + 6, True) & FRAGMENTED
    if fragment:
        offset, more = (fragment & 0x1FFF) * 8, fragment & 0x2000
        protocol = _note_fragment(at, position, stop, offset, more, out[IP_ID], protocol, out)
    if protocol == AUTHENTICATION and position + 8 <= end:
        protocol, position = (
            u8(data, position),
            position + extension_length(protocol, u8(data, position + 1)),
        )
    return int(protocol), int(position), int(stop)


@jit_inner
def _read_ipv6(data: Bytes, at: int, start: int, end: int, stop: int, out: Int64s) -> tuple[int, int, int]:
    position = start + 40
    if position > end:
        return MALFORMED_IP, start, stop
    for word in range(8):
        out[SOURCE + word] = u32(data, start + 8 + 4 * word, True)
    out[IP_ID] = 0
    length = u16(data, start + 4, True)  # 0: a jumbogram (RFC 2675) or offloading
    stop = _stop_of(40 + length if length else 0, at, start, stop, out)
    following = u8(data, start + 6)
    while is_extension(following) and position + 8 <= end:
        size = extension_length(following, u8(data, position + 1))
        fragment = u16(data, position + 2, True) & 0xFFF9 if following == FRAGMENT_HEADER else 0
        identification = u32(data, position + 4, True)
        following = u8(data, position)
        position += size
        if fragment:
            offset, more = fragment & 0xFFF8, fragment & 1
            following = _note_fragment(at, position, stop, offset, more, identification, following, out)
    return MALFORMED_IP if is_extension(following) else int(following), int(position), int(stop)


@jit_inner
def _stop_of(length: int, at: int, start: int, stop: int, out: Int64s) -> int:
    """Return where the IP packet at `start` ends by its length field.

    An inner packet ends within the outer one.
    """
    out[INNER_STOP] = start + length - at if length else 0
    if length and out[LAYERS]:
        return min(start + length, stop)
    return start + length if length else stop


@jit_inner
def _note_fragment(
    at: int, position: int, stop: int, offset: int, more: int, identification: int, protocol: int, out: Int64s
) -> int:
    """Record which part of a datagram lies at `position`. Return the protocol to continue with."""
    if out[DATAGRAM] >= 0:
        return NOT_TCP_IN_FRAGMENTS  # nobody sends fragments within fragments
    common = folded(identification, protocol & 0xFF)
    for word in range(8):
        common = folded(common ^ out[SOURCE + word], word)
    again = folded(common, identification & 0xFFFF)
    out[DATAGRAM] = common << 30 ^ again
    out[DATAGRAM_LAYER] = out[LAYERS]
    out[DATAGRAM_PROTOCOL] = protocol
    out[FRAGMENT_AT] = position - at
    out[FRAGMENT_OFFSET] = offset
    out[FRAGMENT_LENGTH] = max(0, stop - position)
    return protocol if offset == 0 and more else LATER_FRAGMENT


NOT_TCP_IN_FRAGMENTS = 59  # "no next header" (RFC 8200): nothing that could be a tunnel


@jit_inner
def is_extension(kind: int) -> bool:
    """Return whether a protocol is an extension header of IPv6."""
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
def extension_length(kind: int, length: int) -> int:
    """Return the bytes of an IPv6 extension header whose length field is `length` (RFC 8200, RFC 4302)."""
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
            out[OPTIONS] = start + 20 - at
            payload = min(start + header - at, captured)
            kept = min(wire - header, captured - payload)
            out[PAYLOAD] = payload
            out[PAYLOAD_CAPTURED] = kept
            out[PAYLOAD_MISSING] = wire - header - kept
            what = SEGMENT
    return what
