"""Packets that a capture holds twice: distinguished from retransmissions, counted, and described once.

A Linux host captures a packet on every interface that it passes (`any`: veth and bridge, with a VLAN tag and
without, inside a tunnel and outside), and captures from two places may be merged. Such copies differ in link
header, tags, TTL and time only. A packet is a copy of an earlier one when its 4-tuple, direction, sequence
and acknowledgement numbers, flags, window, payload length, TCP options and IPv4 identification are the same
and it comes within COPY_NS: a sender that retransmits uses a new identification or a new timestamp option, or
waits longer (a second by RFC 6298, 200 ms in Linux). A packet with neither identification nor options must
come within UNMARKED_NS. TCP's checksum is not compared, since offloading leaves it unfinished at the sender.

Copies behind address translation belong to another connection and are not recognised.

Only packets within COPY_PACKETS and COPY_BYTES of the file are compared. A split first reads twice as many
packets before its start, so that results do not depend on where splits end: a packet may depend on a
fragment, and that fragment on another one, each no farther away than `packets.ip_fragments` allows.
"""

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats.record_table import folded, u32
from kdissect.capture.packets import headers
from kdissect.jit.decorators import jit_inline

RECALLED_PACKETS = 1 << 10
RECALLED_BYTES = 2 << 20
COPY_PACKETS = RECALLED_PACKETS // 2
COPY_BYTES = RECALLED_BYTES // 2
COPY_NS = 100_000_000
UNMARKED_NS = 1_000_000
# Rows in pairs: two newer packets rarely replace one that is still compared.
SLOTS = 4 * COPY_PACKETS

# A packet: what must be equal, and when and where it was seen.
SEEN, SEEN_NS, SEEN_PACKET, SEEN_PLACE, SEEN_FIELDS = range(5)


def new_seen() -> Int64s:
    """Return an empty table of packets."""
    return np.full((SLOTS, SEEN_FIELDS), -1, dtype=np.int64)


@jit_inline
def _options_hash(data: Bytes, at: int, segment: Int64s) -> int:
    value = 0
    for place in range(segment[headers.OPTIONS], min(segment[headers.PAYLOAD], headers.HEAD_BYTES) - 3, 4):
        value = folded(u32(data, at + place, True) ^ value, 1)
    return value


@jit_inline
def is_copy(
    seen: Int64s, data: Bytes, at: int, who: int, segment: Int64s, time_ns: int, packet: int, place: int
) -> bool:
    """Return whether a packet was seen before, and remember it.

    `who` stands for 4-tuple and direction. The packet lies at data[at:], and at offset `place` of the file.
    """
    options = _options_hash(data, at, segment)
    length = segment[headers.PAYLOAD_CAPTURED] + segment[headers.PAYLOAD_MISSING]
    # One number that differs if any field differs; 27-bit multipliers keep the sum below 2**62.
    numbers = (
        segment[headers.SEQUENCE] * 0x5A34DC3
        + segment[headers.ACKNOWLEDGED] * 0x6B874A1
        + length * 0x7D3B52F
        + (segment[headers.WINDOW] << 8 | segment[headers.CONTROL]) * 0x71A86A9
        + segment[headers.IP_ID] * 0x68E31DB
        + options * 0x4F1BBCD
    )
    fingerprint = numbers + who * 0x4CF5AD5
    # The row must be the same in every process, and `who` differs between processes.
    row = (numbers ^ numbers >> 19 ^ numbers >> 38) & (SLOTS - 1)
    if seen[row, SEEN] != fingerprint and (
        seen[row ^ 1, SEEN] == fingerprint or seen[row ^ 1, SEEN_PACKET] < seen[row, SEEN_PACKET]
    ):
        row ^= 1
    marked = segment[headers.IP_ID] != 0 or options != 0
    copy = (
        seen[row, SEEN] == fingerprint
        and packet - seen[row, SEEN_PACKET] <= COPY_PACKETS
        and place - seen[row, SEEN_PLACE] <= COPY_BYTES
        and abs(time_ns - seen[row, SEEN_NS]) <= (COPY_NS if marked else UNMARKED_NS)
    )
    seen[row, SEEN] = fingerprint
    seen[row, SEEN_NS] = time_ns
    seen[row, SEEN_PACKET] = packet
    seen[row, SEEN_PLACE] = place
    return bool(copy)
