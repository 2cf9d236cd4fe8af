"""Counts of records and ends of splits against a plain count in Python."""

import random
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from kdissect.array_types import Int64s
from kdissect.capture.dedup import RECALLED_BYTES, RECALLED_PACKETS
from kdissect.capture.formats.record_table import (
    CAPTURED,
    LINK_TYPE,
    ORIGINAL,
    RECORD_COLUMNS,
    START,
    STOP,
    TIME_NS,
)
from kdissect.capture.index import split_stats
from kdissect.capture.index.split_stats import (
    CUT_FIELDS,
    StepBack,
    begin_section,
    count_records,
    in_order,
    last_cut,
    new_counts,
    new_last,
)

LINK_TYPES = 5  # and one row for packets of interfaces that were not described


def random_records(seed: int, count: int, gap: int = 0) -> Int64s:
    """Return records with clocks that step back; some lie up to `gap` bytes behind the one before."""
    chance = np.random.default_rng(seed)
    records = np.zeros((count, RECORD_COLUMNS), np.int64)
    records[:, CAPTURED] = chance.integers(0, 1500, count)
    records[:, ORIGINAL] = records[:, CAPTURED] + chance.integers(-2, 3, count)
    lengths = records[:, CAPTURED] + 16
    between = chance.integers(0, gap + 1, count) * (chance.random(count) < 0.1)
    records[:, START] = 24 + np.cumsum(lengths + between) - lengths
    records[:, STOP] = records[:, START] + lengths
    records[:, TIME_NS] = np.maximum(0, np.cumsum(chance.integers(-500, 1000, count)))
    records[:, LINK_TYPE] = chance.integers(-1, LINK_TYPES, count)
    return records


@dataclass
class PlainCount:
    """Counts of `count_records`, in the plainest way: all records are kept."""

    split_bytes: int
    records: list[list[int]] = field(default_factory=list)
    section: int = 0  # index of the first record of the section
    opened: int | None = None  # index of the first record of the open split
    splits: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, record: list[int]) -> None:
        """Count one record."""
        self.records.append(record)
        if self.opened is None:
            self.opened = len(self.records) - 1
        if record[STOP] - self.records[self.opened][START] >= self.split_bytes:
            self.close()

    def close(self) -> None:
        """End the open split, if there is one."""
        if self.opened is None:
            return
        first, start = self.opened, self.records[self.opened][START]
        recalled = first
        while (
            recalled > self.section
            and first - recalled < RECALLED_PACKETS
            and start - self.records[recalled - 1][START] <= RECALLED_BYTES
        ):
            recalled -= 1
        before_ns = self.records[recalled - 1][TIME_NS] if recalled else 0
        from_first = start - self.records[recalled][START]
        count = len(self.records) - first
        stop = self.records[-1][STOP]
        self.splits.append((start, stop, first + 1, count, before_ns, first - recalled, from_first))
        self.opened = None

    def begin_section(self) -> None:
        """Begin a section, from the next record on."""
        self.close()
        self.section = len(self.records)

    def step_back(self) -> StepBack:
        """Return the first of the largest steps back in time."""
        best = StepBack()
        times = [record[TIME_NS] for record in self.records]
        for number, (earlier, later) in enumerate(pairwise(times), 2):
            if earlier - later > best.ns:
                best = StepBack(earlier - later, number, later)
        return best


class Counter:
    """The arrays of the kernel, fed with any number of records at a time."""

    def __init__(self, split_bytes: int) -> None:
        self.split_bytes = split_bytes
        self.counts, self.last = new_counts(), new_last()
        self.links = np.zeros(LINK_TYPES + 1, np.int64)
        self.splits: list[tuple[int, ...]] = []

    def add(self, records: Int64s) -> None:
        """Count some records."""
        cuts = np.empty((len(records), CUT_FIELDS), np.int64)
        finished = count_records(records, self.split_bytes, self.counts, self.links, self.last, cuts)
        self.splits += map(tuple, cuts[:finished].tolist())

    def close(self) -> None:
        """End the open split."""
        self.splits += map(tuple, last_cut(self.counts).tolist())

    def begin_section(self) -> None:
        """Begin a section."""
        self.close()
        begin_section(self.counts)


CASES = {
    "no records": (random_records(0, 0), 1000),
    "a split for each packet": (random_records(1, 300), 1),
    "few splits": (random_records(2, 300), 50_000),
    "one split": (random_records(3, 300), 1 << 40),
    "more packets than are recalled": (random_records(4, 3 * RECALLED_PACKETS), 20_000),
    "more bytes than are recalled": (random_records(5, 300, gap=RECALLED_BYTES), 1 << 20),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sections", [(), (0, 1, 7, 150)], ids=["one section", "sections"])
def test_counts_and_splits_are_those_of_a_plain_count(name: str, sections: tuple[int, ...]) -> None:
    records, split_bytes = CASES[name]
    plain, counter, chance = PlainCount(split_bytes), Counter(split_bytes), random.Random(1)
    done = 0
    while done < len(records):
        ends = [section for section in sections if section > done]
        stop = min([done + chance.randrange(1, 200), len(records), *ends])
        if done in sections:
            plain.begin_section()
            counter.begin_section()
        for record in records[done:stop].tolist():
            plain.add(record)
        counter.add(records[done:stop])
        done = stop
    plain.close()
    counter.close()
    assert counter.splits == plain.splits
    counts, times = counter.counts, records[:, TIME_NS]
    assert counts[split_stats.PACKETS] == len(records)
    assert counts[split_stats.CAPTURED_BYTES] == records[:, CAPTURED].sum()
    assert counts[split_stats.WIRE_BYTES] == records[:, ORIGINAL].sum()
    assert counts[split_stats.TRUNCATED] == (records[:, CAPTURED] < records[:, ORIGINAL]).sum()
    assert counts[split_stats.BACKWARD_STEPS] == (np.diff(times) < 0).sum()
    back = [split_stats.STEP_BACK_NS, split_stats.STEP_BACK_PACKET, split_stats.STEP_BACK_AT_NS]
    assert StepBack(*counts[back].tolist()) == plain.step_back()
    assert counter.links.tolist() == [
        int((records[:, LINK_TYPE] == link_type).sum()) for link_type in [*range(LINK_TYPES), -1]
    ]
    if len(records):
        ends_ns = [split_stats.FIRST_NS, split_stats.LAST_NS, split_stats.EARLIEST_NS, split_stats.LATEST_NS]
        assert counts[ends_ns].tolist() == [times[0], times[-1], times.min(), times.max()]


@pytest.mark.parametrize("count", [0, 1, 100, RECALLED_PACKETS, RECALLED_PACKETS + 1, 3 * RECALLED_PACKETS])
def test_the_last_packets_come_in_order(count: int) -> None:
    records, counter = random_records(8, count), Counter(5000)
    counter.add(records)
    before = [0, *records[:-1, TIME_NS].tolist()]
    expected = list(zip(records[:, START].tolist(), before[:count], strict=True))[-RECALLED_PACKETS:]
    assert list(map(tuple, in_order(counter.counts, counter.last).tolist())) == expected


def test_packets_before_a_section_are_not_remembered() -> None:
    records, counter = random_records(9, 20), Counter(1 << 40)
    counter.add(records[:15])
    counter.begin_section()
    assert len(in_order(counter.counts, counter.last)) == 0
    counter.add(records[15:])
    assert in_order(counter.counts, counter.last)[:, 0].tolist() == records[15:, START].tolist()


def test_the_last_cut_ends_the_open_split_once() -> None:
    counter = Counter(1 << 40)
    assert last_cut(counter.counts).shape == (0, CUT_FIELDS)
    counter.add(random_records(10, 3))
    assert last_cut(counter.counts).shape == (1, CUT_FIELDS)
    assert last_cut(counter.counts).shape == (0, CUT_FIELDS)
