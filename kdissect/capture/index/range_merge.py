"""Merge the scans of the ranges of one file, after checking the assumptions of each.

The first range begins where the file says. A scan is valid if the scan before it ended at the record, and in
the section state, with which it began. So by induction every merged scan began correctly. A scan that is not
valid is repeated from the true position, together with the later ones that assumed another section state.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kdissect.capture.dedup import RECALLED_BYTES, RECALLED_PACKETS
from kdissect.capture.formats import pcapng, pcapng_sections
from kdissect.capture.formats.pcapng_sections import SectionState
from kdissect.capture.index import split_stats
from kdissect.capture.index.range_scan import (
    END,
    RangeScan,
    RangeTask,
    ScanStart,
)
from kdissect.capture.index.splits import NO_CLOCK, ByteRange, Split

RunRanges = Callable[[Sequence[RangeTask]], Iterable[RangeScan]]
"""Scans ranges, in parallel or not. Returns the scans in the order of the tasks."""

MOST_AGAIN = 3  # times that several ranges are scanned again; after that, invalid ones are scanned one by one


@dataclass(frozen=True, slots=True)
class FilePlan:
    """How a file is scanned: its ranges, where the first begins, and what state later ones assume."""

    ranges: tuple[ByteRange, ...]
    entry: ScanStart
    foreseen: SectionState

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.ranges[0].size

    def tasks(self) -> list[RangeTask]:
        """Return the tasks; all but the first one guess where they begin."""
        first, *others = self.ranges
        return [RangeTask(first, self.entry), *(_guess(part, self.foreseen) for part in others)]


def merge_scans(
    plan: FilePlan, looks: list[RangeScan], run: RunRanges, before: "MergedScans | None" = None
) -> "MergedScans":
    """Return the merged scans of a file; `run` repeats invalid scans.

    `before` is what was merged of the file up to where the plan begins.
    """
    joined = MergedScans(plan.entry) if before is None else before.following()
    for number, part in enumerate(plan.ranges):
        entry = joined.entry
        if not _holds(looks[number], entry):
            behind = range(number + 1, len(looks))
            wrong = [later for later in behind if not _suits(looks[later], entry.in_force)]
            if joined.again == MOST_AGAIN:
                wrong = []
            joined.again += bool(wrong)
            tasks = [RangeTask(part, entry), *(_guess(plan.ranges[later], entry.in_force) for later in wrong)]
            for which, look in zip([number, *wrong], run(tasks), strict=True):
                looks[which] = look
        joined.add(looks[number])
        if looks[number].ended != END:
            break
    return joined


def _guess(part: ByteRange, in_force: SectionState) -> RangeTask:
    return RangeTask(part, ScanStart(part.start, in_force, NO_CLOCK), guess=True)


def _holds(look: RangeScan, entry: ScanStart) -> bool:
    """Return whether a scan found what it would have found from the true start."""
    clock_known = look.entry.clock_ns == entry.clock_ns or look.counts[split_stats.EARLIEST_NS] != NO_CLOCK
    few_blocks = (
        entry.blocks + look.blocks <= pcapng_sections.MOST_BLOCKS or look.entry.blocks == entry.blocks
    )
    at_home = look.entry.position == entry.position
    return at_home and clock_known and few_blocks and _suits(look, entry.in_force)


def _suits(look: RangeScan, in_force: SectionState) -> bool:
    """Return whether a scan assumed the right section state, apart from interfaces that it did not use."""
    taken = look.entry.in_force
    if taken == in_force:
        return True
    first = in_force.interfaces[: len(taken.interfaces)]
    unmoved = not look.described and -1 not in look.link_types
    return unmoved and taken.big_endian == in_force.big_endian and taken.interfaces == first


class MergedScans:
    """Facts about a file up to some position. Times are None before the first packet.

    For a file that grows it may be what came behind an earlier position (`following`): then counts, times and
    splits are those of the packets since. Packet numbers, secrets and the state of sections are the file's.
    """

    def __init__(self, entry: ScanStart) -> None:
        self.entry = entry  # of the next look
        self.packets_before = 0
        self._drops_before = 0, 0
        self.again = 0
        self.ended = END
        self.packets = self.captured_bytes = self.wire_bytes = self.truncated = self.backward_steps = 0
        self.step_back = split_stats.StepBack()
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.earliest_ns: int | None = None
        self.latest_ns: int | None = None
        self.link_types: set[int] = set()
        self.secrets: list[pcapng.SecretsBlock] = []
        self.splits: list[Split] = []
        self._sections = 0
        self._statistics: dict[tuple[int, int], pcapng.InterfaceStatistics] = {}
        self._last = split_stats.new_last()[:0]

    @property
    def drops(self) -> tuple[int, int]:
        """Packets lost by interfaces and by operating systems.

        Statistics count from the start of a capture.
        """
        interface, system = self._drops_so_far()
        return interface - self._drops_before[0], system - self._drops_before[1]

    def following(self) -> "MergedScans":
        """Return what comes behind the present position: nothing yet."""
        then = MergedScans(self.entry)
        then.packets_before = self.packets_before + self.packets
        then.ended, then.secrets = self.ended, list(self.secrets)
        then._sections, then._statistics = self._sections, dict(self._statistics)
        then._drops_before = self._drops_so_far()
        then._last = self._last
        return then

    def _drops_so_far(self) -> tuple[int, int]:
        last = self._statistics.values()
        return sum(each.interface_drops for each in last), sum(each.system_drops for each in last)

    def add(self, look: RangeScan) -> None:
        """Add the next scan, which is valid."""
        in_force = look.in_force if look.described else self.entry.in_force
        self.splits.extend(self._placed(look, split) for split in look.splits)
        self._remember(look)
        self._count(look.counts)
        self.link_types |= look.link_types
        self.secrets += look.secrets
        for (section, interface), statistics in look.statistics.items():
            self._statistics[self._sections + section, interface] = statistics
        self._sections += look.sections
        self.ended = look.ended
        clock_ns = self.entry.clock_ns if self.last_ns is None else self.last_ns
        self.entry = ScanStart(look.stop, in_force, clock_ns, self.entry.blocks + look.blocks)

    def _count(self, counts: Sequence[int]) -> None:
        if not counts[split_stats.PACKETS]:
            return
        first, last = counts[split_stats.FIRST_NS], counts[split_stats.LAST_NS]
        earliest, latest = counts[split_stats.EARLIEST_NS], counts[split_stats.LATEST_NS]
        packets, clock_ns = self.packets_before + self.packets, self.entry.clock_ns
        self.backward_steps += counts[split_stats.BACKWARD_STEPS] + (first < clock_ns)
        inside = (
            counts[split_stats.STEP_BACK_NS],
            packets + counts[split_stats.STEP_BACK_PACKET],
            counts[split_stats.STEP_BACK_AT_NS],
        )
        between = split_stats.StepBack(clock_ns - first, packets + 1, first)
        self.step_back = max(self.step_back, between, split_stats.StepBack(*inside), key=lambda step: step.ns)
        self.first_ns = first if self.first_ns is None else self.first_ns
        self.last_ns = last
        self.earliest_ns = earliest if self.earliest_ns is None else min(earliest, self.earliest_ns)
        self.latest_ns = latest if self.latest_ns is None else max(latest, self.latest_ns)
        self.packets += counts[split_stats.PACKETS]
        self.captured_bytes += counts[split_stats.CAPTURED_BYTES]
        self.wire_bytes += counts[split_stats.WIRE_BYTES]
        self.truncated += counts[split_stats.TRUNCATED]

    def _placed(self, look: RangeScan, split: Split) -> Split:
        """Return a split with its position in the file and the packets that it reads from earlier scans."""
        if not look.described:
            split = replace(split, interfaces=self.entry.in_force.interfaces)
        from_first = split.first_packet - split.recalled_packets == 1
        split = replace(split, first_packet=split.first_packet + self.packets_before + self.packets)
        if not from_first:
            return split
        split = replace(split, time_before_ns=self.entry.clock_ns)
        if look.first_section is not None and look.first_section < split.start:
            return split
        near = self._last[max(0, len(self._last) - RECALLED_PACKETS + split.recalled_packets) :]
        near = near[split.start - near[:, split_stats.LAST_START] <= RECALLED_BYTES]
        if not len(near):
            return split
        return replace(
            split,
            time_before_ns=int(near[0, split_stats.LAST_CLOCK_NS]),
            recalled_packets=split.recalled_packets + len(near),
            recalled_bytes=split.start - int(near[0, split_stats.LAST_START]),
        )

    def _remember(self, look: RangeScan) -> None:
        """Remember the last packets of the current section."""
        last = look.last
        if len(last) and len(last) == look.counts[split_stats.PACKETS]:
            # The first packet of the range is among them.
            last = last.copy()
            last[0, split_stats.LAST_CLOCK_NS] = self.entry.clock_ns
        if look.first_section is None:
            last = np.concatenate([self._last, last])[-RECALLED_PACKETS:]
        self._last = last
