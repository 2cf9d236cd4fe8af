"""The index of what was read, if reading ended before the captures did.

The splits before an ordinal were read. Files that have none of them are left out. Counts and times of the
file that was read in part are those of its splits. Counts that the index has for a whole file only (bytes,
cut off packets) are divided in proportion.
"""

from collections.abc import Iterable
from dataclasses import replace

from kdissect.capture.formats.record_reader import RecordLayout, RecordReader
from kdissect.capture.formats.record_table import TIME_NS
from kdissect.capture.index.index import CaptureIndex, FileIndex
from kdissect.capture.index.splits import Split, interface_table
from kdissect.capture.storage import open_storage


def index_prefix(index: CaptureIndex, stop: int) -> CaptureIndex:
    """Return the index of the splits with an ordinal below `stop`."""
    files = []
    for file in index.files:
        read = tuple(split for split in file.splits if split.index < stop)
        if len(read) == len(file.splits):
            files.append(file)
        elif read:
            files.append(_part_of_file(file, read, file.splits[len(read)]))
    return CaptureIndex(tuple(files), tuple(split for split in index.splits if split.index < stop))


def _part_of_file(file: FileIndex, read: tuple[Split, ...], following: Split) -> FileIndex:
    """Return the index of the first splits of a file, which ends where the following one begins."""
    share = split_bytes(read) / max(1, split_bytes(file.splits))
    last_ns = _first_time_ns(following)
    latest_ns = last_ns if file.latest_time_ns is None else min(file.latest_time_ns, last_ns)
    return replace(
        file,
        packets=sum(split.packets for split in read),
        last_time_ns=last_ns,
        latest_time_ns=max(latest_ns, file.earliest_time_ns or 0),
        captured_bytes=round(file.captured_bytes * share),
        wire_bytes=round(file.wire_bytes * share),
        truncated_packets=round(file.truncated_packets * share),
        splits=read,
    )


def _first_time_ns(split: Split) -> int:
    """Return the time of the first packet of a split; that of the one before it if it cannot be read."""
    try:
        with open_storage(split.path) as source:
            reader = RecordReader(source, split.start, split.stop, 0, clock_ns=split.time_before_ns)
            interfaces = interface_table(split.interfaces)
            reader.advance(RecordLayout(split.format, split.big_endian, split.record_header, interfaces))
            return int(reader.records[0, TIME_NS])
    except (OSError, IndexError):
        return split.time_before_ns


def split_bytes(splits: Iterable[Split]) -> int:
    """Return how many bytes of the captures splits cover."""
    return sum(split.stop - split.start for split in splits)
