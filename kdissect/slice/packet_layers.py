"""Positions of the IP headers of a packet, from the outermost to the innermost, and what follows each.

In comes a packet as captured, out go rows of integers. Tunnels are followed as pass one follows them
(`capture.packets`), with the same functions, so the innermost header is the one that names the connection.
"""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats.record_table import u8, u16
from kdissect.capture.packets.headers import FRAGMENT_HEADER, HEAD_BYTES, TCP, extension_length, is_extension
from kdissect.capture.packets.link_layer import KIND, LINK_TABLE, SKIP, TYPE_AT, behind_link
from kdissect.capture.packets.tunnels import MOST_NESTED, behind_tunnel
from kdissect.jit.decorators import jit_flat

START, BEHIND, PROTOCOL, OFFSET, COLUMNS = range(5)


class IpLayer(NamedTuple):
    """An IP header: where it begins, where what it carries begins, and the protocol of that."""

    start: int
    behind: int
    protocol: int
    is_fragment: bool  # a part of a datagram, the first one too
    is_later: bool  # another part than the first one


def ip_layers(packet: bytes, link_type: int) -> list[IpLayer]:
    """Return the IP headers of a packet, the outermost first."""
    if not 0 <= link_type < len(LINK_TABLE) or LINK_TABLE[link_type, KIND] < 0:
        return []
    kind, type_at, skip = (int(LINK_TABLE[link_type, column]) for column in (KIND, TYPE_AT, SKIP))
    rows = np.zeros((MOST_NESTED + 1, COLUMNS), np.int64)
    data = np.frombuffer(packet[:HEAD_BYTES], np.uint8)
    count = find_ip_layers(data, kind, type_at, skip, rows)
    return [
        IpLayer(start, behind, protocol, offset >= 0, offset > 0)
        for start, behind, protocol, offset in rows[:count].tolist()
    ]


@jit_flat
def find_ip_layers(data: Bytes, kind: int, type_at: int, skip: int, rows: Int64s) -> int:
    """Fill a row for each IP header of a packet. Return how many there are.

    OFFSET is the place of a fragment in its datagram, -1 if the packet is whole.
    """
    end = len(data)
    start = behind_link(data, 0, end, kind, type_at, skip)
    count = 0
    while 0 <= start < end and count < len(rows):
        version = u8(data, start) >> 4
        offset = -1
        if version == 4:
            behind = start + (u8(data, start) & 15) * 4
            if behind < start + 20 or behind > end:
                return count
            protocol = u8(data, start + 9)
            fragment = u16(data, start + 6, True) & 0x3FFF
            if fragment:
                offset = (fragment & 0x1FFF) * 8
        elif version == 6 and start + 40 <= end:
            behind = start + 40
            protocol = u8(data, start + 6)
        else:
            return count
        while is_extension(protocol) and behind + 8 <= end:
            if protocol == FRAGMENT_HEADER and u16(data, behind + 2, True) & 0xFFF9:
                offset = u16(data, behind + 2, True) & 0xFFF8
            following = u8(data, behind)
            behind += extension_length(protocol, u8(data, behind + 1))
            protocol = following
        rows[count, START] = start
        rows[count, BEHIND] = behind
        rows[count, PROTOCOL] = protocol
        rows[count, OFFSET] = offset
        count += 1
        if protocol == TCP or offset > 0:
            return count
        start = behind_tunnel(data, protocol, behind, end)
    return count


@jit_flat
def clear_extensions(data: Bytes, start: int, behind: int) -> None:
    """Write zeros over what the extension headers of an IPv6 header hold: options, and addresses on the way.

    Zeros are options that only pad, and a route that has come to its end (RFC 8200). Fragment headers stay.
    """
    protocol, at = u8(data, start + 6), start + 40
    while at < behind:
        following, size = u8(data, at), extension_length(protocol, u8(data, at + 1))
        if protocol != FRAGMENT_HEADER:
            data[at + 2 : min(at + size, len(data))] = 0
        protocol, at = following, at + size
