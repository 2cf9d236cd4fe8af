"""The index of captures: one fast pass over every record header, before anything is dissected.

It holds what is in the captures (packets, times, sizes, losses that the capture reports) and cuts them into
splits. Packet bytes are not interpreted. Every packet belongs to exactly one split.

A large file is scanned in ranges, in parallel. The start of the first record of a range is guessed from a
chain of record headers (`resync`), and accepted if the previous range ends there (`range_merge`). Many
machines can therefore index one file. The result is that of one scan of the whole file, except that splits
end where ranges do.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from kdissect.capture.formats import pcap, pcapng
from kdissect.capture.formats.file_types import InputError
from kdissect.capture.formats.pcapng_sections import SectionState
from kdissect.capture.formats.record_reader import CHUNK_BYTES
from kdissect.capture.index.range_merge import (
    FilePlan,
    MergedScans,
    RunRanges,
    merge_scans,
)
from kdissect.capture.index.range_pieces import SplitScans
from kdissect.capture.index.range_scan import (
    STOPPED,
    RangeScan,
    RangeTask,
    ScanStart,
    scan_range,
)
from kdissect.capture.index.split_stats import StepBack
from kdissect.capture.index.splits import ByteRange, CaptureFormat, Split
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.storage import open_storage
from kdissect.files import processor_count

SPLIT_BYTES = 32 << 20
LARGEST_SPLIT_BYTES = 256 << 20  # the memory of pass one grows with the split
RANGE_BYTES = 128 << 20  # small enough for many machines, large enough that guessing costs little
FORESEEN_BYTES = 1 << 16
CAPTURE_HEAD_BYTES = max(pcap.HEADER_BYTES, pcapng.SECTION_BYTES)
"""Bytes at the beginning of a file that show its format."""

Progress = Callable[[int, int], None]  # bytes passed, bytes in all


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Contents of one capture file. Times are None if it holds no packet."""

    file: CaptureFile
    format: CaptureFormat
    size: int  # bytes of the file, decompressed
    packets: int
    first_time_ns: int | None  # of the first packet in the file
    last_time_ns: int | None
    earliest_time_ns: int | None
    latest_time_ns: int | None
    backward_steps: int  # packets with an earlier time than the previous one
    step_back: StepBack  # the largest of them
    captured_bytes: int
    wire_bytes: int
    truncated_packets: int  # kept only in part
    link_types: tuple[int, ...]  # -1: packets of an interface that the file never described
    interface_drops: int  # packets lost in capturing, as the capture reports (pcapng statistics)
    system_drops: int
    secrets: tuple[pcapng.SecretsBlock, ...]
    warnings: tuple[str, ...]
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class CaptureIndex:
    """Contents of all captures: files in the order of their first packets, and the splits of all of them."""

    files: tuple[FileIndex, ...]
    splits: tuple[Split, ...]
    unread_bytes: int = 0
    """Bytes of the captures behind the last split, if the user ended the reading while they were indexed."""

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
        """Packet bytes on the wire, as the captures state."""
        return sum(file.wire_bytes for file in self.files)

    @property
    def truncated_packets(self) -> int:
        """Packets in all files that were kept only in part."""
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
        """Warnings about the files, each with the name of its file."""
        return tuple(f"{file.file.name}: {warning}" for file in self.files for warning in file.warnings)


def index_captures(
    files: Sequence[CaptureFile],
    split_bytes: int = SPLIT_BYTES,
    progress: Progress | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    range_bytes: int = RANGE_BYTES,
    run: RunRanges | None = None,
) -> CaptureIndex:
    """Return the index of all files. Raise InputError for a file that cannot be read.

    `progress` is called with the bytes scanned so far and in all. `run` scans ranges, by default in threads.
    If its scans are `STOPPED`, the index is that of the first files, up to where the last one was scanned.
    """
    run = run or in_threads
    split_bytes = min(max(1, split_bytes), LARGEST_SPLIT_BYTES)
    range_bytes = split_bytes * max(1, range_bytes // split_bytes)
    plans = [plan_file(file, split_bytes, chunk_bytes, range_bytes) for file in files]
    tasks = [task for plan in plans for task in plan.tasks()]
    scans = _with_progress(zip(tasks, run(tasks), strict=True), sum(plan.size for plan in plans), progress)
    merged = [merge_scans(plan, list(islice(scans, len(plan.ranges))), run) for plan in plans]
    found = [file_index(*one) for one in zip(files, plans, merged, strict=True)]
    unfinished = {one.file for one, scan in zip(found, merged, strict=True) if scan.ended == STOPPED}
    found.sort(key=lambda one: (one.first_time_ns is None, one.first_time_ns, one.file.name))
    if unfinished:
        found = _up_to(found, unfinished)
    index = with_numbers(found)
    unread = sum(plan.size for plan in plans) - sum(split.stop - split.start for split in index.splits)
    return replace(index, unread_bytes=unread if unfinished else 0)


def with_numbers(files: Iterable[FileIndex]) -> CaptureIndex:
    """Return the index of files in this order; their splits are numbered."""
    files = list(files)
    splits = (split for one in files for split in one.splits)
    numbered = iter([replace(split, index=index) for index, split in enumerate(splits)])
    ordered = tuple(replace(one, splits=tuple(next(numbered) for _ in one.splits)) for one in files)
    return CaptureIndex(ordered, tuple(split for one in ordered for split in one.splits))


def _up_to(files: list[FileIndex], unfinished: Collection[CaptureFile]) -> list[FileIndex]:
    """Return the files up to the first one that was not scanned to its end."""
    last = next(number for number, one in enumerate(files) if one.file in unfinished)
    return [one for one in files[: last + 1] if one.packets or one.file not in unfinished]


def _with_progress(
    done: Iterable[tuple[RangeTask, RangeScan]], size: int, progress: Progress | None
) -> Iterator[RangeScan]:
    """Pass scans on, and report how many of `size` bytes they cover."""
    passed = 0
    for task, scan in done:
        passed += task.range.limit - task.range.start
        if progress:
            progress(passed, size)
        yield scan


def in_threads(
    tasks: Sequence[RangeTask],
    is_stopped: Callable[[], bool] = lambda: False,
    scans: SplitScans[Any] | None = None,
) -> Iterator[RangeScan]:
    """Return the scans of ranges, of what is read until `is_stopped`. Pass one is made for `scans`.

    They are made on all cores: the kernels release the lock of the interpreter.
    """
    workers = min(len(tasks), processor_count())
    if workers < 2:
        yield from one_by_one(tasks, is_stopped, scans)
        return
    scan = partial(scan_range, is_stopped=is_stopped, scans=scans)
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(scan, tasks)


def one_by_one(
    tasks: Sequence[RangeTask],
    is_stopped: Callable[[], bool] = lambda: False,
    scans: SplitScans[Any] | None = None,
) -> Iterator[RangeScan]:
    """Return what `in_threads` returns, one scan after another."""
    return map(partial(scan_range, is_stopped=is_stopped, scans=scans), tasks)


def plan_file(
    file: CaptureFile,
    split_bytes: int = SPLIT_BYTES,
    chunk_bytes: int = CHUNK_BYTES,
    range_bytes: int = RANGE_BYTES,
    stop: int | None = None,
) -> FilePlan:
    """Return how a file is scanned, from its first bytes. Raise InputError if it is not a capture.

    With `stop`, the file is read as if it had so many bytes.
    """
    try:
        with open_storage(file.path) as source:
            size, first = source.size, source.read(pcapng.SECTION_BYTES, 0)
            size = size if stop is None else min(size, stop)
    except OSError as error:
        raise InputError.of(file.name, error) from None
    header = pcap.read_header(first)
    if header is not None:
        format, record_header, start = CaptureFormat.PCAP, header.record_header, pcap.HEADER_BYTES
        in_force = SectionState(header.big_endian, (header.interface,))
    elif pcapng.section_order(first) is not None:
        format, record_header, start, in_force = CaptureFormat.PCAPNG, 0, 0, SectionState(False, ())
    else:
        raise InputError(f"{file.name} is not a packet capture")

    def part(start: int, limit: int) -> ByteRange:
        return ByteRange(
            file.path, file.name, size, format, record_header, start, limit, split_bytes, chunk_bytes
        )

    starts = range(0, max(1, size), range_bytes)
    ranges = tuple(part(start, min(size, start + range_bytes)) for start in starts)
    entry = ScanStart(start, in_force)
    if len(ranges) > 1 and format is CaptureFormat.PCAPNG:
        in_force = first_bytes(ranges[0], entry).in_force
    return FilePlan(ranges, entry, in_force)


def first_bytes(part: ByteRange, entry: ScanStart) -> RangeScan:
    """Return the scan of the first bytes of a file, which `part` and `entry` begin.

    Interfaces of pcapng are usually described before the first packet.
    """
    return scan_range(RangeTask(replace(part, limit=min(part.limit, FORESEEN_BYTES)), entry))


def file_index(file: CaptureFile, plan: FilePlan, joined: MergedScans) -> FileIndex:
    """Return the index of a file from its merged scans."""
    warnings = list(file.warnings)
    if text := ENDS.get(joined.ended):
        position = joined.entry.position
        packets = joined.packets_before + joined.packets
        warnings.append(f"{text} at byte {position}; the {packets} packets before were read")
    interface_drops, system_drops = joined.drops
    return FileIndex(
        file=file,
        format=plan.ranges[0].format,
        size=plan.size,
        packets=joined.packets,
        first_time_ns=joined.first_ns,
        last_time_ns=joined.last_ns,
        earliest_time_ns=joined.earliest_ns,
        latest_time_ns=joined.latest_ns,
        backward_steps=joined.backward_steps,
        step_back=joined.step_back,
        captured_bytes=joined.captured_bytes,
        wire_bytes=joined.wire_bytes,
        truncated_packets=joined.truncated,
        link_types=tuple(sorted(joined.link_types - {-1})) + (-1,) * (-1 in joined.link_types),
        interface_drops=interface_drops,
        system_drops=system_drops,
        secrets=tuple(joined.secrets),
        warnings=tuple(warnings),
        splits=tuple(joined.splits),
    )


ENDS = {
    "CUT": "the file ends within a record",
    "DAMAGED": "the file is damaged",
    "TOO_MANY": "the file describes more sections and interfaces than any capture has, reading stopped",
}
