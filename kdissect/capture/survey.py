"""The survey: one fast look at every record header of every capture, before anything is dissected.

It says what is in the captures (packets, times, sizes, what the capture itself lost) and cuts them into splits. Packet
bytes are not interpreted; the result is the same for any chunk size, and every packet belongs to exactly one split.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kdissect.capture import pcap, pcapng, tally
from kdissect.capture.files import CaptureFile
from kdissect.capture.records import Int64s
from kdissect.capture.refusals import InputError
from kdissect.capture.sections import Reading, Sections
from kdissect.capture.source import Source, opened
from kdissect.capture.splits import Format, Split
from kdissect.capture.walk import CHUNK_BYTES, Layout, Outcome, Walk

SPLIT_BYTES = 32 << 20
LARGEST_SPLIT_BYTES = 256 << 20  # what pass one keeps in memory grows with the split
LINK_TYPES = 1 << 16

Progress = Callable[[int, int], None]  # bytes passed, bytes in all


@dataclass(frozen=True, slots=True)
class FileSurvey:
    """What one capture file holds. Times are None when it holds no packet."""

    file: CaptureFile
    format: Format
    size: int  # bytes of the file, decompressed
    packets: int
    first_time_ns: int | None  # of the first packet in the file
    last_time_ns: int | None
    earliest_time_ns: int | None
    latest_time_ns: int | None
    backward_steps: int  # packets with a time before that of the packet before
    captured_bytes: int
    wire_bytes: int
    truncated_packets: int  # of which the capture kept less than was on the wire
    link_types: tuple[int, ...]  # -1: packets of an interface that the file never described
    interface_drops: int  # packets lost in capturing, as the capture itself says (pcapng statistics)
    system_drops: int
    secrets: tuple[pcapng.Secrets, ...]
    warnings: tuple[str, ...]
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """What all captures hold: files in the order of their first packets, and the splits of all of them."""

    files: tuple[FileSurvey, ...]
    splits: tuple[Split, ...]

    @property
    def packets(self) -> int:
        """Packets in all files."""
        return sum(file.packets for file in self.files)

    @property
    def captured_bytes(self) -> int:
        """Packet bytes in all files."""
        return sum(file.captured_bytes for file in self.files)

    @property
    def wire_bytes(self) -> int:
        """Packet bytes on the wire, as the captures tell."""
        return sum(file.wire_bytes for file in self.files)

    @property
    def truncated_packets(self) -> int:
        """Packets in all files of which less was kept than was on the wire."""
        return sum(file.truncated_packets for file in self.files)

    @property
    def earliest_time_ns(self) -> int | None:
        """Time of the earliest packet."""
        return min(
            (file.earliest_time_ns for file in self.files if file.earliest_time_ns is not None), default=None
        )

    @property
    def latest_time_ns(self) -> int | None:
        """Time of the latest packet."""
        return max(
            (file.latest_time_ns for file in self.files if file.latest_time_ns is not None), default=None
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the files, each led by the file's name."""
        return tuple(f"{file.file.name}: {warning}" for file in self.files for warning in file.warnings)


def survey(
    files: Sequence[CaptureFile],
    split_bytes: int = SPLIT_BYTES,
    progress: Progress | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Survey:
    """Look over all files. `progress` hears of bytes passed. Raises InputError for a file that cannot be read."""
    split_bytes = min(max(1, split_bytes), LARGEST_SPLIT_BYTES)
    total = sum(os.stat(file.path).st_size for file in files if os.path.exists(file.path))
    passed = 0
    looks = []
    for file in files:
        look = _Look(file, split_bytes)
        for position in look.over(chunk_bytes):
            if progress:
                progress(passed + position, total)
        looks.append(look.result())
        passed += look.size
    looks.sort(key=lambda found: (found.first_time_ns is None, found.first_time_ns, found.file.name))
    splits = (split for found in looks for split in found.splits)
    numbered = iter([replace(split, index=index) for index, split in enumerate(splits)])
    ordered = tuple(replace(found, splits=tuple(next(numbered) for _ in found.splits)) for found in looks)
    return Survey(ordered, tuple(split for found in ordered for split in found.splits))


class _Look:
    """The survey of one file while it goes on."""

    def __init__(self, file: CaptureFile, split_bytes: int) -> None:
        self.file, self.size = file, 0
        self._split_bytes = split_bytes
        self._format, self._record_header = Format.PCAPNG, 0
        self._sections = Sections()
        self._counts = tally.new_tally()
        self._links = np.zeros(LINK_TYPES + 1, dtype=np.int64)
        self._last = tally.new_last()
        self._splits: list[Split] = []
        self._warnings = list(file.warnings)

    def over(self, chunk_bytes: int) -> Iterator[int]:
        """Go through the file; give the position now and then."""
        try:
            with opened(self.file.path) as source:
                self.size = source.size
                start = self._begin(source.read(pcapng.SECTION_BYTES, 0))
                yield from self._pass(Walk(source, start, self.size, chunk_bytes=chunk_bytes), source)
        except OSError as error:
            raise InputError.of(self.file.name, error) from None

    def result(self) -> FileSurvey:
        """Give what was found."""
        counts, some = self._counts.tolist(), bool(self._counts[tally.PACKETS])
        found = np.flatnonzero(self._links).tolist()
        interface_drops, system_drops = self._sections.drops
        return FileSurvey(
            file=self.file,
            format=self._format,
            size=self.size,
            packets=counts[tally.PACKETS],
            first_time_ns=counts[tally.FIRST_NS] if some else None,
            last_time_ns=counts[tally.LAST_NS] if some else None,
            earliest_time_ns=counts[tally.EARLIEST_NS] if some else None,
            latest_time_ns=counts[tally.LATEST_NS] if some else None,
            backward_steps=counts[tally.BACKWARD_STEPS],
            captured_bytes=counts[tally.CAPTURED_BYTES],
            wire_bytes=counts[tally.WIRE_BYTES],
            truncated_packets=counts[tally.TRUNCATED],
            link_types=tuple(-1 if link == LINK_TYPES else link for link in found),
            interface_drops=interface_drops,
            system_drops=system_drops,
            secrets=tuple(self._sections.secrets),
            warnings=tuple(self._warnings),
            splits=tuple(self._splits),
        )

    def _begin(self, first: bytes) -> int:
        """Read the file header; give the position of the first record or block."""
        header = pcap.read_header(first)
        if header is None:
            if pcapng.section_order(first) is None:
                raise InputError(f"{self.file.name} is not a packet capture")
            return 0
        self._format, self._record_header = Format.PCAP, header.record_header
        self._sections.only(header.big_endian, header.interface)
        return pcap.HEADER_BYTES

    def _layout(self) -> Layout:
        return Layout(self._format, self._sections.big_endian, self._record_header, self._sections.table)

    def _pass(self, walk: Walk, source: Source) -> Iterator[int]:
        layout = self._layout()
        cuts = np.empty((walk.room, tally.CUT_FIELDS), dtype=np.int64)
        while True:
            outcome = walk.advance(layout, look=True)
            finished = tally.tally(
                walk.records, self._split_bytes, self._counts, self._links, self._last, cuts
            )
            self._add_splits(cuts[:finished])
            yield walk.position
            if outcome is Outcome.BLOCK:
                reading, after = self._sections.read(source, walk.position, self.size, self._close_split)
                if reading is not Reading.WHOLE:
                    self._warn_of(reading.name, walk.position)
                    break
                walk.skip_to(after)
                layout = self._layout()
            elif outcome not in (Outcome.MORE, Outcome.FULL):
                self._warn_of(outcome.name, walk.position)
                break
        self._close_split()

    def _close_split(self) -> None:
        self._add_splits(tally.close_split(self._counts))

    def _add_splits(self, cuts: Int64s) -> None:
        for start, stop, first_packet, packets, clock_ns, recalled, recalled_bytes in cuts.tolist():
            self._splits.append(
                Split(
                    index=0,
                    path=self.file.path,
                    name=self.file.name,
                    start=start,
                    stop=stop,
                    first_packet=first_packet,
                    packets=packets,
                    format=self._format,
                    big_endian=self._sections.big_endian,
                    record_header=self._record_header,
                    interfaces=self._sections.interfaces,
                    time_before_ns=clock_ns,
                    recalled_packets=recalled,
                    recalled_bytes=recalled_bytes,
                )
            )

    def _warn_of(self, end: str, position: int) -> None:
        text = ENDS.get(end)
        if text:
            packets = self._counts[tally.PACKETS]
            self._warnings.append(f"{text} at byte {position}; the {packets} packets before were read")


ENDS = {
    "CUT": "the file ends within a record",
    "DAMAGED": "the file is damaged",
    "TOO_MANY": "the file describes more sections and interfaces than any capture has, reading stopped",
}
