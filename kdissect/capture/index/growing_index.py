"""The index of captures that are still being written: of what a file has grown by, and of that alone.

A range of a file comes in: from the size that it had at an earlier look to the size that it has now. Out
comes the index of the packets that have become complete since. Half a packet at the end belongs to the next
range. So the ranges of a file, wherever they are cut, have the packets of the whole file with their numbers.

A range needs a value of the bytes before (`MergedScans`): position, packet number, sections and
interfaces, and the last packets, which splits recall. It is kept in memory only. It follows from the bytes
before, so a process that does not have it scans their record headers once more.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kdissect.capture.index.index import (
    CaptureIndex,
    FileIndex,
    file_index,
    in_threads,
    plan_file,
    with_numbers,
)
from kdissect.capture.index.range_merge import FilePlan, MergedScans, merge_scans
from kdissect.capture.index.splits import ByteRange
from kdissect.capture.inputs import CaptureFile

MOST_REMEMBERED = 256
"""Files whose scans are kept in memory: about 20 KB each."""
STUCK = ("DAMAGED", "TOO_MANY")
"""Ends of a scan behind which nothing of the file can be read."""


@dataclass(frozen=True, slots=True)
class CaptureRange:
    """Range that a file has grown by, from one size to another; `stop` None is the end of the file."""

    file: CaptureFile
    start: int = 0
    stop: int | None = None
    is_closed: bool = True
    """True if nothing will follow, as far as known: half a packet at the end is a fault then."""


class GrowingIndex:
    """Indexes ranges of files. See the module's text."""

    def __init__(self) -> None:
        self._scans: OrderedDict[tuple[str, int], MergedScans] = OrderedDict()  # by path and stop

    def index(self, ranges: Sequence[CaptureRange], split_bytes: int) -> CaptureIndex:
        """Return the index of ranges, in order of time. Raise InputError for a file that cannot be read.

        Ranges of one file stay in the order in which they are given.
        """
        order: dict[str, int] = {}
        found = []
        for number, part in enumerate(ranges):
            one = self._index(part, split_bytes)
            first_ns = order.get(part.file.name, 0) if one.first_time_ns is None else one.first_time_ns
            order[part.file.name] = max(order.get(part.file.name, 0), first_ns)
            found.append((order[part.file.name], one.file.name, number, one))
        return with_numbers(one for *_, one in sorted(found, key=lambda entry: entry[:3]))

    def _index(self, part: CaptureRange, split_bytes: int) -> FileIndex:
        before = self._scanned(part.file, part.start, split_bytes) if part.start else None
        plan, scans = _scan(part.file, before, part.stop, split_bytes)
        if part.stop is not None and not part.file.spooled:
            self._remember((part.file.path, part.stop), scans)
        found = file_index(part.file, plan, scans)
        known_before = before is not None and before.ended in STUCK
        warned = found.warnings if part.is_closed or scans.ended in STUCK else part.file.warnings
        return replace(found, size=plan.size - part.start, warnings=() if known_before else warned)

    def _scanned(self, file: CaptureFile, stop: int, split_bytes: int) -> MergedScans:
        """Return the scans of the first bytes of a file."""
        known = self._scans.get((file.path, stop))
        return known if known is not None else _scan(file, None, stop, split_bytes)[1]

    def _remember(self, key: tuple[str, int], scans: MergedScans) -> None:
        self._scans[key] = scans
        self._scans.move_to_end(key)
        while len(self._scans) > MOST_REMEMBERED:
            self._scans.popitem(last=False)


def _scan(
    file: CaptureFile, before: MergedScans | None, stop: int | None, split_bytes: int
) -> tuple[FilePlan, MergedScans]:
    """Return how the bytes behind `before` are scanned, and the scans."""
    plan = plan_file(file, split_bytes, stop=stop)
    if before is None:
        return plan, merge_scans(plan, list(in_threads(plan.tasks())), in_threads)
    plan = FilePlan(_ranges_behind(plan.ranges, before), before.entry, before.entry.in_force)
    if before.ended in STUCK:
        return plan, before.following()
    return plan, merge_scans(plan, list(in_threads(plan.tasks())), in_threads, before)


def _ranges_behind(ranges: Sequence[ByteRange], before: MergedScans) -> tuple[ByteRange, ...]:
    """Return the ranges of a file behind what was scanned; the last one, empty, if nothing is."""
    position = before.entry.position
    behind = [part for part in ranges if part.limit > position] or [replace(ranges[-1], limit=position)]
    return replace(behind[0], start=position), *behind[1:]
