"""A sample of packets from all over the captures, which estimates how much each connection carries.

Work is then divided evenly. The sample is cheap and rough, so no result may depend on it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.flow_pieces import BUCKET, BUCKETS, COUNT
from kdissect.capture.flow_table import PIECE, FlowTable
from kdissect.capture.index.index import SPLIT_BYTES, first_bytes, plan_file
from kdissect.capture.index.range_merge import FilePlan
from kdissect.capture.index.resync import guessed
from kdissect.capture.index.splits import CaptureFormat, Split
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import read_split
from kdissect.capture.segment_index import FLAG_SYN, FLAGS
from kdissect.capture.storage import open_storage

MOST_LOOKS = 16
LOOK_BYTES = 2 << 20
ENOUGH_LOOKS = 3  # to distinguish a burst of new connections from a steady stream
GOLDEN = (5**0.5 - 1) / 2
"""The fractions of its multiples lie evenly between 0 and 1, however many they are."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Contents of the sample, and the estimates from it."""

    bytes: int
    """Bytes of all captures."""
    segments: Int64s
    """Number of sampled segments for each bucket of connections."""
    connections: int
    """Estimated number of connections in all captures."""
    looked: int = 0
    """Bytes that were looked at."""

    @property
    def segment_bytes(self) -> int:
        """Bytes of the captures for each segment."""
        return self.looked // max(1, int(self.segments.sum()))


def take_sample(splits: Sequence[Split], ports: Iterable[int] = ()) -> Sample:
    """Return a sample from the beginnings of some splits. Raise OSError for a file that cannot be read."""
    size = sum(split.stop - split.start for split in splits)
    step = max(1, -(-len(splits) // MOST_LOOKS))
    return _sample_of([splits[at] for at in spread(len(splits), step)], size, ports)


def rough_sample(files: Sequence[CaptureFile], ports: Iterable[int] = ()) -> Sample | None:
    """Return a sample of captures that are not indexed yet; None if a file cannot be read.

    Records probably begin where it looks (see `resync`). Raise InputError for what is not a capture.
    """
    plans = [plan_file(file) for file in files]
    size = sum(plan.size for plan in plans)
    try:
        places = spread(size, max(SPLIT_BYTES, -(-size // MOST_LOOKS)), LOOK_BYTES)
        return _sample_of(_splits_at(places, plans), size, ports)
    except OSError:
        return None


def _sample_of(places: Iterable[Split], size: int, ports: Iterable[int]) -> Sample:
    """Return the sample of what lies at some places of captures with `size` bytes."""
    segments = np.zeros(BUCKETS, np.int64)
    found = FlowTable(ports)
    looked = going_on = 0
    opened = []
    for split in places:
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
    return Sample(size, segments, max(going_on + opening, distinct(segments)), looked)


def spread(size: int, step: int, room: int = 1) -> Iterator[int]:
    """Yield one place in each `step` of a size, from 0 on, with `room` behind it where there is so much.

    Places at equal distances meet what recurs at such a distance always or never. Each look at 32 copies of
    one recording met the begin of a copy, where all connections open: 59,066 were estimated, of 1,728.
    """
    for number, begin in enumerate(range(0, size, step)):
        width = max(0, min(step, size - begin) - room)
        yield begin + int(number * GOLDEN % 1 * (width + 1))


def _splits_at(places: Iterable[int], plans: Sequence[FilePlan]) -> Iterator[Split]:
    """Yield what lies at some places of files, one behind the other, as splits."""
    ends = list(accumulate(plan.size for plan in plans))
    for place in places:
        number = bisect_right(ends, place)
        split = _split_at(plans[number], place - ends[number] + plans[number].size)
        if split is not None:
            yield split


def _split_at(plan: FilePlan, at: int) -> Split | None:
    part, in_force = plan.ranges[0], plan.foreseen
    start: int | None = plan.entry.position
    if part.format is CaptureFormat.PCAPNG and (at == 0 or len(plan.ranges) == 1):
        first = first_bytes(part, plan.entry)
        start, in_force = first.splits[0].start if first.splits else None, first.in_force
    if at:
        with open_storage(part.path) as source:
            start = guessed(source, at, part.size, part.format, part.record_header, in_force)
    if start is None:
        return None
    return Split(
        index=0,
        path=part.path,
        name=part.name,
        start=start,
        stop=part.size,
        first_packet=1,
        packets=0,
        format=part.format,
        big_endian=in_force.big_endian,
        record_header=part.record_header,
        interfaces=in_force.interfaces,
        time_before_ns=0,
    )


def distinct(segments: Int64s) -> int:
    """Return an estimate of the number of sampled connections (linear counting, Whang et al. 1990)."""
    empty = int(np.count_nonzero(segments == 0))
    return int(-len(segments) * np.log(max(empty, 1) / len(segments)))


NO_SAMPLE = Sample(0, np.zeros(BUCKETS, np.int64), 0)
