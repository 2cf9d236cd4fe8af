"""Packets that are read a few ahead of the loop of pass one, whose pieces are fetched meanwhile.

The loop changes the piece of each packet, and the pieces of many connections are more than the processor's
cache holds. They take longer to arrive than the packets to read: a packet of 100,000 connections took 132 ns,
and takes 79. With few connections it takes as long as without this.
"""

import numpy as np

from kdissect.array_types import Bytes, Int32s, Int64s
from kdissect.capture.flow_pieces import PIECE_FIELDS, hash_ends
from kdissect.capture.formats.record_table import AT, CAPTURED, LINK_TYPE, ORIGINAL
from kdissect.capture.packets import headers
from kdissect.capture.packets.headers import read_packet
from kdissect.capture.packets.link_layer import KIND, LINK_TABLE, SKIP, TYPE_AT
from kdissect.jit.decorators import jit_inline, prefetch

AHEAD = 16  # packets
LINE = 8  # integers of a line of the processor's cache

# The columns of a packet that was read ahead, behind those of its headers: class, and hash of its key.
CLASS, KEY, AHEAD_FIELDS = range(headers.SEGMENT_FIELDS, headers.SEGMENT_FIELDS + 3)


@jit_inline
def read_ahead(
    data: Bytes,
    base: int,
    records: Int64s,
    first: int,
    stop: int,
    slots: Int32s,
    pieces: Int64s,
    multipliers: Int64s,
    ahead: Int64s,
) -> None:
    """Read the packets of records[first:stop] into rows of `ahead`, and fetch the pieces that they belong to.

    Their bytes lie in `data` from file offset `base` on. A packet that is no segment has no KEY.
    """
    last = len(slots) - 1
    for i in range(first, stop):
        segment = ahead[i - first]
        link_type, captured, original = records[i, LINK_TYPE], records[i, CAPTURED], records[i, ORIGINAL]
        what = headers.UNKNOWN_LINK
        if 0 <= link_type < len(LINK_TABLE) and LINK_TABLE[link_type, KIND] >= 0:
            kind, type_at = LINK_TABLE[link_type, KIND], LINK_TABLE[link_type, TYPE_AT]
            skip = LINK_TABLE[link_type, SKIP]
            what = read_packet(data, records[i, AT] - base, captured, original, kind, type_at, skip, segment)
        segment[CLASS] = what
        if what == headers.SEGMENT:
            segment[KEY] = hash_ends(segment, multipliers)
            prefetch(slots, segment[KEY] & last)
    for i in range(stop - first):
        piece = np.int64(slots[ahead[i, KEY] & last])
        if ahead[i, CLASS] == headers.SEGMENT and piece >= 0:
            for field in range(0, PIECE_FIELDS, LINE):
                prefetch(pieces, piece * PIECE_FIELDS + field)
