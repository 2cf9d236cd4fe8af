"""Packets that a capture holds twice: told from retransmissions, counted apart, described once.

A Linux host shows a packet on every interface that it passes (`any`: veth and bridge, with a VLAN tag and without, inside a
tunnel and outside), and captures from two places may be merged. Such copies differ in link header, tags, TTL and time
only. A packet is a copy of an earlier one when its 4-tuple, direction, sequence and acknowledgement numbers, flags,
window, payload length, TCP options and IPv4 identification are the same and it comes within COPY_NS: a sender that transmits
again gives the packet a new identification, a new timestamp option, or waits longer (RFC 6298 lets it wait a
second, Linux 200 ms). Where a packet has neither identification nor options, as little as UNMARKED_NS must lie
between the two. TCP's checksum is not compared: offloading leaves it unfinished at the sender.

Address translation makes another connection of a packet; then nothing here can tell.

Only packets within COPY_PACKETS and COPY_BYTES of the file are compared. A split begins with recalling twice as many of those
before it, so that the outcome does not depend on where it was cut: what a packet is may depend on a fragment, which
may depend on another one, each no farther away than `fragments` allows.
"""

import numpy as np

from kdissect.capture.formats.record_table import (
    Bytes,
    Int64s,
    folded,
    u32,
)
from kdissect.capture.packets.headers import (
    ACKNOWLEDGED,
    CONTROL,
    HEAD_BYTES,
    IP_ID,
    OPTIONS,
    PAYLOAD,
    PAYLOAD_CAPTURED,
    PAYLOAD_MISSING,
    SEQUENCE,
    WINDOW,
)
from kdissect.jit.decorators import jit_inner

RECALLED_PACKETS = 1 << 10
RECALLED_BYTES = 2 << 20
COPY_PACKETS = RECALLED_PACKETS // 2
COPY_BYTES = RECALLED_BYTES // 2
COPY_NS = 100_000_000
UNMARKED_NS = 1_000_000
# In pairs: hardly ever do two newer packets take the places of one that is still compared.
SLOTS = 4 * COPY_PACKETS

# A packet seen: what must be equal, and when and where it was.
SEEN, SEEN_NS, SEEN_PACKET, SEEN_PLACE, SEEN_FIELDS = range(5)


def new_seen() -> Int64s:
    """Give an empty table of packets seen."""
    return np.full((SLOTS, SEEN_FIELDS), -1, dtype=np.int64)


@jit_inner
def _options_hash(data: Bytes, at: int, segment: Int64s) -> int:
    value = 0
    for place in range(segment[OPTIONS], min(segment[PAYLOAD], HEAD_BYTES) - 3, 4):
        value = folded(u32(data, at + place, True) ^ value, 1)
    return value


@jit_inner
def is_copy(
    seen: Int64s, data: Bytes, at: int, who: int, segment: Int64s, time_ns: int, packet: int, place: int
) -> bool:
    """Say whether a packet was seen before, and remember it.

    `who` stands for 4-tuple and direction, the packet lies at data[at:] and at `place` in the file.
    """
    options = _options_hash(data, at, segment)
    length = segment[PAYLOAD_CAPTURED] + segment[PAYLOAD_MISSING]
    # One number that differs when any of them does: 27-bit multipliers keep the sum below 2**62.
    numbers = (
        segment[SEQUENCE] * 0x5A34DC3
        + segment[ACKNOWLEDGED] * 0x6B874A1
        + length * 0x7D3B52F
        + (segment[WINDOW] << 8 | segment[CONTROL]) * 0x71A86A9
        + segment[IP_ID] * 0x68E31DB
        + options * 0x4F1BBCD
    )
    fingerprint = numbers + who * 0x4CF5AD5
    # Places must be the same in every process, which `who` is not.
    row = (numbers ^ numbers >> 19 ^ numbers >> 38) & (SLOTS - 1)
    if seen[row, SEEN] != fingerprint and (
        seen[row ^ 1, SEEN] == fingerprint or seen[row ^ 1, SEEN_PACKET] < seen[row, SEEN_PACKET]
    ):
        row ^= 1
    marked = segment[IP_ID] != 0 or options != 0
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
