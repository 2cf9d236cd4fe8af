"""Count packet records and mark where splits end: the kernel of the index that touches every record."""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.dedup import RECALLED_BYTES, RECALLED_PACKETS
from kdissect.capture.formats.record_table import CAPTURED, LINK_TYPE, ORIGINAL, START, STOP, TIME_NS
from kdissect.jit.decorators import jit_flat, jit_inner

# The counters of one file.
(
    PACKETS,
    CAPTURED_BYTES,
    WIRE_BYTES,
    TRUNCATED,
    FIRST_NS,
    LAST_NS,
    EARLIEST_NS,
    LATEST_NS,
    BACKWARD_STEPS,
    STEP_BACK_NS,  # the largest of them: how far, and with which packet
    STEP_BACK_PACKET,
    STEP_BACK_AT_NS,  # the time of that packet
    OPEN_START,  # the split that is not finished: file offset of its first record, -1: there is none
    OPEN_STOP,
    OPEN_FIRST_PACKET,
    OPEN_CLOCK_NS,  # time of the packet before those that it recalls
    OPEN_RECALLED_PACKETS,
    OPEN_RECALLED_BYTES,
    RECALLABLE,  # packets since the section began
    TALLY_FIELDS,
) = range(20)

# A finished split.
(
    CUT_START,
    CUT_STOP,
    CUT_FIRST_PACKET,
    CUT_PACKETS,
    CUT_CLOCK_NS,
    CUT_RECALLED_PACKETS,
    CUT_RECALLED_BYTES,
    CUT_FIELDS,
) = range(8)

# The last packets, by their number: where each begins, and the time of the one before.
LAST_START, LAST_CLOCK_NS, LAST_FIELDS = range(3)


class StepBack(NamedTuple):
    """The largest step back in time between two packets, and the number and time of the second one.

    All are 0 if time never steps back.
    """

    ns: int = 0
    packet: int = 0
    at_ns: int = 0


def new_counts() -> Int64s:
    """Return empty counts."""
    counts = np.zeros(TALLY_FIELDS, dtype=np.int64)
    counts[OPEN_START] = -1
    return counts


def new_last() -> Int64s:
    """Return an empty ring of the last packets."""
    return np.zeros((RECALLED_PACKETS, LAST_FIELDS), dtype=np.int64)


@jit_flat
def _close(counts: Int64s, cut: Int64s) -> None:
    cut[CUT_START] = counts[OPEN_START]
    cut[CUT_STOP] = counts[OPEN_STOP]
    cut[CUT_FIRST_PACKET] = counts[OPEN_FIRST_PACKET]
    cut[CUT_PACKETS] = counts[PACKETS] - counts[OPEN_FIRST_PACKET] + 1
    cut[CUT_CLOCK_NS] = counts[OPEN_CLOCK_NS]
    cut[CUT_RECALLED_PACKETS] = counts[OPEN_RECALLED_PACKETS]
    cut[CUT_RECALLED_BYTES] = counts[OPEN_RECALLED_BYTES]
    counts[OPEN_START] = -1


@jit_inner
def _open(counts: Int64s, last: Int64s, start: int) -> None:
    """Begin a split at file offset `start`, and count the earlier packets that its reader reads again."""
    packet = counts[PACKETS]
    counts[OPEN_START] = start
    counts[OPEN_FIRST_PACKET] = packet + 1
    counts[OPEN_CLOCK_NS] = counts[LAST_NS] if packet else 0
    recalled = 0
    while recalled < min(RECALLED_PACKETS, counts[RECALLABLE]):
        row = (packet - recalled - 1) & (RECALLED_PACKETS - 1)
        if start - last[row, LAST_START] > RECALLED_BYTES:
            break
        recalled += 1
        counts[OPEN_CLOCK_NS] = last[row, LAST_CLOCK_NS]
        counts[OPEN_RECALLED_BYTES] = start - last[row, LAST_START]
    counts[OPEN_RECALLED_PACKETS] = recalled
    if recalled == 0:
        counts[OPEN_RECALLED_BYTES] = 0


@jit_flat
def count_records(
    records: Int64s, split_bytes: int, counts: Int64s, links: Int64s, last: Int64s, cuts: Int64s
) -> int:
    """Count `records` into `counts` and, by link type, into `links` (the last of them for link type -1).

    A split ends with the record that makes it `split_bytes` long. Finished splits become rows of `cuts`,
    which has room for one per record. Return their number.
    """
    finished = 0
    for i in range(len(records)):
        time_ns = records[i, TIME_NS]
        if counts[PACKETS] == 0:
            counts[FIRST_NS] = time_ns
            counts[LAST_NS] = time_ns
            counts[EARLIEST_NS] = time_ns
            counts[LATEST_NS] = time_ns
        if counts[OPEN_START] < 0:
            _open(counts, last, records[i, START])
        row = counts[PACKETS] & (RECALLED_PACKETS - 1)
        last[row, LAST_START] = records[i, START]
        last[row, LAST_CLOCK_NS] = counts[LAST_NS] if counts[PACKETS] else 0
        counts[RECALLABLE] += 1
        counts[PACKETS] += 1
        counts[CAPTURED_BYTES] += records[i, CAPTURED]
        counts[WIRE_BYTES] += records[i, ORIGINAL]
        counts[TRUNCATED] += 1 if records[i, CAPTURED] < records[i, ORIGINAL] else 0
        back_ns = counts[LAST_NS] - time_ns
        counts[BACKWARD_STEPS] += 1 if back_ns > 0 else 0
        if back_ns > counts[STEP_BACK_NS]:
            counts[STEP_BACK_NS] = back_ns
            counts[STEP_BACK_PACKET] = counts[PACKETS]
            counts[STEP_BACK_AT_NS] = time_ns
        counts[LAST_NS] = time_ns
        counts[EARLIEST_NS] = min(counts[EARLIEST_NS], time_ns)
        counts[LATEST_NS] = max(counts[LATEST_NS], time_ns)
        counts[OPEN_STOP] = records[i, STOP]
        links[records[i, LINK_TYPE]] += 1
        if records[i, STOP] - counts[OPEN_START] >= split_bytes:
            _close(counts, cuts[finished])
            finished += 1
    return finished


def last_cut(counts: Int64s) -> Int64s:
    """Finish the open split. Return it as rows of cuts, none if no split is open."""
    cuts = np.empty((1, CUT_FIELDS), dtype=np.int64)
    if counts[OPEN_START] < 0:
        return cuts[:0]
    _close(counts, cuts[0])
    return cuts


def begin_section(counts: Int64s) -> None:
    """Begin a section: later splits read no packet before it."""
    counts[RECALLABLE] = 0


def in_order(counts: Int64s, last: Int64s) -> Int64s:
    """Return the last packets of the section that are remembered, the earliest first."""
    packets, remembered = int(counts[PACKETS]), int(min(counts[RECALLABLE], RECALLED_PACKETS))
    rows: Int64s = last[np.arange(packets - remembered, packets) & (RECALLED_PACKETS - 1)]
    return rows
