"""A sample of packets from all over the captures, which estimates how much each connection carries.

Work is then divided evenly. The sample is cheap and rough, so no result may depend on it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.flow_pieces import BUCKET, BUCKETS, COUNT
from kdissect.capture.flow_table import PIECE, FlowTable
from kdissect.capture.index.splits import Split
from kdissect.capture.scan import read_split
from kdissect.capture.segment_index import FLAG_SYN, FLAGS

MOST_LOOKS = 16
LOOK_BYTES = 2 << 20
ENOUGH_LOOKS = 3  # to distinguish a burst of new connections from a steady stream


@dataclass(frozen=True, slots=True)
class Sample:
    """Contents of the sample, and the estimates from it."""

    bytes: int
    """Bytes of all captures."""
    segments: Int64s
    """Number of sampled segments for each bucket of connections."""
    connections: int
    """Estimated number of connections in all captures."""


def take_sample(splits: Sequence[Split], ports: Iterable[int] = ()) -> Sample:
    """Return a sample from the beginnings of some splits. Raise OSError for a file that cannot be read."""
    size = sum(split.stop - split.start for split in splits)
    segments = np.zeros(BUCKETS, np.int64)
    found = FlowTable(ports)
    looked = going_on = 0
    opened = []
    for split in splits[:: max(1, -(-len(splits) // MOST_LOOKS))]:
        look = replace(split, stop=min(split.stop, split.start + LOOK_BYTES))
        looked += look.stop - look.start
        read_split(look, found)
        pieces = found.pieces
        np.add.at(segments, pieces[:, BUCKET], pieces[:, COUNT])
        handshakes = found.segments[:, FLAGS] & FLAG_SYN != 0
        opened.append(len(np.unique(found.segments[handshakes, PIECE])))
        going_on = max(going_on, len(pieces) - opened[-1])
    # The largest burst counts once: after an outage, or in a test, all clients connect at the same time.
    burst = max(opened) if len(opened) >= ENOUGH_LOOKS else 0
    opening = burst + (sum(opened) - burst) * size // max(1, looked)
    return Sample(size, segments, max(going_on + opening, distinct(segments)))


def distinct(segments: Int64s) -> int:
    """Return an estimate of the number of sampled connections (linear counting, Whang et al. 1990)."""
    empty = int(np.count_nonzero(segments == 0))
    return int(-len(segments) * np.log(max(empty, 1) / len(segments)))


NO_SAMPLE = Sample(0, np.zeros(BUCKETS, np.int64), 0)
