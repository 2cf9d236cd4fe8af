"""A look at some packets, spread over the captures, before all of them are read: which connections carry how much.

Work can then be shared out evenly. The look is cheap, so it is rough, and nothing that is reported may depend on it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kdissect.capture.flow_table import (
    BUCKET,
    BUCKETS,
    COUNT,
    PIECE,
    FlowTable,
)
from kdissect.capture.formats.record_table import Int64s
from kdissect.capture.index.splits import Split
from kdissect.capture.scan import read_split
from kdissect.capture.segment_index import FLAG_SYN, FLAGS

MOST_LOOKS = 16
LOOK_BYTES = 2 << 20
ENOUGH_LOOKS = 3  # to tell a burst of new connections from a steady stream of them


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen, and what it lets expect."""

    bytes: int
    """Of all captures."""
    segments: Int64s
    """How many segments were seen of each bucket of connections."""
    connections: int
    """About so many connections will be found in all."""


def take_sample(splits: Sequence[Split], ports: Iterable[int] = ()) -> Sample:
    """Look at the beginnings of some splits. Raises OSError for a file that cannot be read."""
    size = sum(split.stop - split.start for split in splits)
    segments = np.zeros(BUCKETS, np.int64)
    found = FlowTable(ports)
    looked = going_on = 0
    opened = []
    for split in splits[:: -(-len(splits) // MOST_LOOKS)]:
        look = replace(split, stop=min(split.stop, split.start + LOOK_BYTES))
        looked += look.stop - look.start
        read_split(look, found)
        pieces = found.pieces
        np.add.at(segments, pieces[:, BUCKET], pieces[:, COUNT])
        handshakes = found.segments[:, FLAGS] & FLAG_SYN != 0
        opened.append(len(np.unique(found.segments[handshakes, PIECE])))
        going_on = max(going_on, len(pieces) - opened[-1])
    # What a single look met need not go on at that rate: after an outage, or in a test, all clients come at once.
    burst = max(opened) if len(opened) >= ENOUGH_LOOKS else 0
    opening = burst + (sum(opened) - burst) * size // max(1, looked)
    return Sample(size, segments, max(going_on + opening, distinct(segments)))


def distinct(segments: Int64s) -> int:
    """Estimate how many connections were seen from how many buckets they left empty (linear counting, Whang et al. 1990)."""
    empty = int(np.count_nonzero(segments == 0))
    return int(-len(segments) * np.log(max(empty, 1) / len(segments)))


NO_SAMPLE = Sample(0, np.zeros(BUCKETS, np.int64), 0)
