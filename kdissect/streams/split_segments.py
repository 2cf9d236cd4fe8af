"""The segments of a split in pass two, and what is known of all of them together.

Descriptors of a split are more than the processor's cache holds, so each look at all of them takes some
10 ns a segment. One loop (`gather_segments`) drops the acknowledgments, and notes on the way what payload
reading, reassembly and the comparison of repeated bytes need to know.
"""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.packets.ip_fragments import MOST_PACKETS
from kdissect.capture.segment_index import (
    CAPTURED,
    FLAG_ACK_ONLY,
    FLAG_B_TO_A,
    FLAGS,
    OFFSET,
    PACKET,
    SEGMENT_COLUMNS,
)
from kdissect.jit.decorators import jit_flat
from kdissect.streams.flow_state import PACKET_BITS

IN_FILE = (1 << PACKET_BITS) - 1  # the part of a packet's number that counts in its file
PAYLOAD_BYTES, FILLED, LAST_PACKET, LAST_PLACE, FACTS = range(5)


class SplitSegments(NamedTuple):
    """Segments of a split, piece after piece."""

    table: Int64s
    """Descriptors: see `segment_index`. Reassembly adds to their flags."""
    counts: Int64s
    """How many segments each piece has."""
    connection_of: Int64s
    directions: Int64s
    """For each segment: twice the row of its connection, and 1 more from B to A."""
    payload_bytes: int
    filled: int
    """How many segments have payload in the file."""
    last_packet: int
    """The highest number of a packet in its file. A fragment that waited stands behind higher numbers."""
    last_place: int
    """The highest offset in the file."""

    def marked(self, flag: int) -> Int64s:
        """Return the segments that have a flag."""
        found = np.empty(len(self.directions), np.int64)
        return found[: find_marked(np.ascontiguousarray(self.table.T), flag, found)]

    def late(self, least: int) -> Int64s:
        """Return the segments whose packets have numbers in the file from `least` on."""
        found = np.empty(len(self.directions), np.int64)
        rows = np.ascontiguousarray(self.table.T)
        return found[: find_late(rows, self.counts, least, found)]


def segments_of_split(packets: Int64s, counts: Int64s, connections: Int64s) -> SplitSegments:
    """Return the segments among the next counts[i] `packets` of each piece, whose connections these are.

    They lie in the memory of `packets`, a descriptor table, which is used up: new memory took twice as long
    as the copying.
    """
    rows = np.ascontiguousarray(packets.T)
    connection_of, directions = np.empty((2, len(rows)), np.int64)
    kept, facts = np.empty(len(counts), np.int64), np.zeros(FACTS, np.int64)
    count = gather_segments(rows, counts, connections, connection_of, directions, kept, facts)
    return SplitSegments(rows[:count].T, kept, connection_of[:count], directions[:count], *facts.tolist())


@jit_flat
def gather_segments(
    rows: Int64s,
    counts: Int64s,
    connections: Int64s,
    connection_of: Int64s,
    directions: Int64s,
    kept: Int64s,
    facts: Int64s,
) -> int:
    """Move descriptors that are no acknowledgments to the front, and fill the other arrays.

    Return how many they are.
    """
    at, count = 0, 0
    payload, filled, last_packet, last_place = 0, 0, 0, 0
    for piece in range(len(counts)):
        before, connection = count, connections[piece]
        for row in range(at, at + counts[piece]):
            flags = rows[row, FLAGS]
            if flags & FLAG_ACK_ONLY:
                continue
            connection_of[count] = connection
            directions[count] = 2 * connection + (flags & FLAG_B_TO_A)
            payload += rows[row, CAPTURED]
            filled += rows[row, CAPTURED] != 0
            last_packet = max(last_packet, rows[row, PACKET] & IN_FILE)
            last_place = max(last_place, rows[row, OFFSET])
            if count < row:
                for column in range(SEGMENT_COLUMNS):
                    rows[count, column] = rows[row, column]
            count += 1
        at += counts[piece]
        kept[piece] = count - before
    facts[PAYLOAD_BYTES], facts[FILLED] = payload, filled
    facts[LAST_PACKET], facts[LAST_PLACE] = last_packet, last_place
    return count


@jit_flat
def find_marked(rows: Int64s, flag: int, found: Int64s) -> int:
    """Put the segments that have a flag into `found`, ascending. Return how many they are."""
    count = 0
    for row in range(len(rows)):
        if rows[row, FLAGS] & flag:
            found[count] = row
            count += 1
    return count


@jit_flat
def find_late(rows: Int64s, counts: Int64s, least: int, found: Int64s) -> int:
    """Put the segments of packets from `least` on into `found`, ascending. Return how many they are.

    Packets of a piece ascend, but for fragments that waited, for MOST_PACKETS at most. So only the end of
    each piece is looked at.
    """
    stop, count = 0, 0
    for piece in range(len(counts)):
        first, stop = stop, stop + counts[piece]
        row = stop
        while row > first and rows[row - 1, PACKET] & IN_FILE >= least - MOST_PACKETS:
            row -= 1
        while row < stop:
            if rows[row, PACKET] & IN_FILE >= least:
                found[count] = row
                count += 1
            row += 1
    return count


def call_all() -> None:
    """Call the loop that hardly any split needs, so that it is compiled and kept."""
    nothing, none = np.zeros((SEGMENT_COLUMNS, 0), np.int64), np.zeros(0, np.int64)
    segments_of_split(nothing, none, none).marked(0)
