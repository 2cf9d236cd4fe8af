"""The scan of one byte range of a capture: every record that begins there is counted and assigned to a split.

The result depends on where the first record begins and on the section state there. Both are known for the
first range of a file. For every other range they are assumed (`ScanStart`), and `range_merge` checks the
assumption. Packet numbers count from the range's first packet, sections from the current one at its
beginning.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.formats import pcapng
from kdissect.capture.formats.file_types import InputError
from kdissect.capture.formats.pcapng_sections import (
    BlockOutcome,
    SectionReader,
    SectionState,
)
from kdissect.capture.formats.record_reader import (
    ReadOutcome,
    RecordLayout,
    RecordReader,
)
from kdissect.capture.index import split_stats
from kdissect.capture.index.range_pieces import RangePieces, SplitScans
from kdissect.capture.index.resync import guessed
from kdissect.capture.index.splits import NO_CLOCK, ByteRange, Split
from kdissect.capture.packets.headers import HEAD_BYTES
from kdissect.capture.storage import CaptureStorage, open_storage

LINK_TYPES = 1 << 16
NOWHERE = -1
END = "END"
STOPPED = "STOPPED"
"""The user ended the reading."""


@dataclass(frozen=True, slots=True)
class ScanStart:
    """Start of a scan, with the state that came before."""

    position: int
    """File offset of the first record or block; NOWHERE if none was found."""
    in_force: SectionState
    clock_ns: int = 0
    """Time of the previous packet; 0 if there is none."""
    blocks: int = 0
    """Number of descriptions before."""


@dataclass(frozen=True, slots=True)
class RangeScan:
    """Contents of one range, if it begins with `entry`."""

    entry: ScanStart
    stop: int  # file offset of the first record or block that was not passed
    ended: str  # why: END, STOPPED, or the name of a ReadOutcome or BlockOutcome
    in_force: SectionState  # at `stop`
    counts: tuple[int, ...]  # the fields of `split_stats`, PACKETS … RECALLABLE
    link_types: frozenset[int]  # -1: packets of an interface that was not described
    last: Int64s  # rows of LAST_START, LAST_CLOCK_NS: the last packets of the current section at `stop`
    splits: tuple[Split, ...]
    described: bool  # whether sections or interfaces are
    blocks: int  # descriptions of any kind
    sections: int  # that begin here
    first_section: int | None  # where the first of them does
    statistics: dict[tuple[int, int], pcapng.InterfaceStatistics]
    secrets: tuple[pcapng.SecretsBlock, ...]


@dataclass(frozen=True, slots=True)
class RangeTask:
    """A range to scan. A guess begins where the range does; the scan finds the first record behind that."""

    range: ByteRange
    entry: ScanStart
    guess: bool = False


def scan_range(
    task: RangeTask,
    is_stopped: Callable[[], bool] = lambda: False,
    scans: SplitScans[Any] | None = None,
) -> RangeScan:
    """Return the scan of one range, of what is read until `is_stopped`. Pass one is made for `scans`.

    Raise InputError for a file that cannot be read.
    """
    part, entry = task.range, task.entry
    try:
        with open_storage(part.path) as source:
            if task.guess and not is_stopped():
                begin = guessed(
                    source, part.start, part.size, part.format, part.record_header, entry.in_force
                )
                entry = ScanStart(NOWHERE if begin is None else begin, entry.in_force, NO_CLOCK)
            with scans.of_range(part) if scans else nullcontext() as pieces:
                return _RangeScanner(part, entry, source, is_stopped, pieces).result()
    except OSError as error:
        raise InputError.of(part.name, error) from None


class _RangeScanner:
    def __init__(
        self,
        part: ByteRange,
        entry: ScanStart,
        source: CaptureStorage,
        is_stopped: Callable[[], bool],
        pieces: RangePieces[Any] | None,
    ) -> None:
        self._part, self._entry, self._source, self._is_stopped = part, entry, source, is_stopped
        self._pieces = pieces
        self._sections = SectionReader(entry.in_force, entry.blocks)
        self._counts = split_stats.new_counts()
        self._links = np.zeros(LINK_TYPES + 1, dtype=np.int64)
        self._last = split_stats.new_last()
        self._splits: list[Split] = []

    def result(self) -> RangeScan:
        stop, ended = (NOWHERE, END) if self._entry.position == NOWHERE else self._pass()
        sections = self._sections
        found = np.flatnonzero(self._links).tolist()
        return RangeScan(
            entry=self._entry,
            stop=stop,
            ended=ended,
            in_force=sections.in_force,
            counts=tuple(self._counts.tolist()),
            link_types=frozenset(-1 if link == LINK_TYPES else link for link in found),
            last=split_stats.in_order(self._counts, self._last),
            splits=tuple(self._splits),
            described=sections.described,
            blocks=sections.blocks - self._entry.blocks,
            sections=sections.begun,
            first_section=sections.first_begun,
            statistics=sections.statistics,
            secrets=tuple(sections.secrets),
        )

    def _pass(self) -> tuple[int, str]:
        """Scan the range. Return where and why the scan ends."""
        part, entry, pieces = self._part, self._entry, self._pieces
        head, chunk_bytes = HEAD_BYTES if pieces else 0, part.chunk_bytes
        walk = RecordReader(
            self._source, entry.position, part.size, head, chunk_bytes, entry.clock_ns, limit=part.limit
        )
        cuts = np.empty((walk.room, split_stats.CUT_FIELDS), dtype=np.int64)
        layout, outcome, ended = self._layout(), ReadOutcome.MORE, ""
        if pieces:
            pieces.recall(self._source, entry.position, layout, entry.in_force)
        while not ended:
            if self._is_stopped():
                ended = STOPPED
                break
            outcome, before = walk.advance(layout, look=True), int(self._counts[split_stats.PACKETS])
            finished = split_stats.count_records(
                walk.records, part.split_bytes, self._counts, self._links, self._last, cuts
            )
            if pieces:
                pieces.add(walk, before, cuts[:finished])
            self._splits.extend(self._made_of(cuts[:finished]))
            if outcome is ReadOutcome.BLOCK:
                reading, after = self._sections.read(
                    self._source, walk.position, part.size, self._end_section
                )
                walk.skip_to(after)
                layout = self._layout()
                ended = "" if reading is BlockOutcome.WHOLE else reading.name
            elif outcome not in (ReadOutcome.MORE, ReadOutcome.FULL):
                ended = outcome.name
        self._end_split()
        return walk.position, ended

    def _layout(self) -> RecordLayout:
        part, sections = self._part, self._sections
        return RecordLayout(part.format, sections.big_endian, part.record_header, sections.table)

    def _end_split(self) -> None:
        cuts = split_stats.last_cut(self._counts)
        if self._pieces and len(cuts):
            self._pieces.end_split(cuts[0])
        self._splits.extend(self._made_of(cuts))

    def _end_section(self) -> None:
        self._end_split()
        split_stats.begin_section(self._counts)
        if self._pieces:
            self._pieces.begin_section()

    def _made_of(self, cuts: Int64s) -> Iterator[Split]:
        for start, stop, first_packet, packets, clock_ns, recalled, recalled_bytes in cuts.tolist():
            yield Split(
                index=0,
                path=self._part.path,
                name=self._part.name,
                start=start,
                stop=stop,
                first_packet=first_packet,
                packets=packets,
                format=self._part.format,
                big_endian=self._sections.big_endian,
                record_header=self._part.record_header,
                interfaces=self._sections.interfaces,
                time_before_ns=clock_ns,
                recalled_packets=recalled,
                recalled_bytes=recalled_bytes,
            )
