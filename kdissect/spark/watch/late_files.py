"""Files that a watch skips, since it is too far behind: they are counted, and not analyzed.

A file is late if it was written to for the last time so much earlier than the newest file of its directory.
So a watch that cannot keep up reads what is new, whole files of it, and leaves out what lies before: its
rows are those of a sample, and what the sample lacks is known. Packets are counted from the headers of their
records. Those of a compressed file, which would have to be unpacked for it, are not; its bytes are.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.growing_index import CaptureRange, GrowingIndex
from kdissect.capture.index.index import SPLIT_BYTES
from kdissect.capture.inputs import open_inputs
from kdissect.report.model.summary import CaptureGap
from kdissect.spark.capture_facts import joined_gaps
from kdissect.spark.watch.closed_files import list_files
from kdissect.spark.watch.file_journal import TakenFile, can_grow
from kdissect.text import format_count, format_size


class Skipped(NamedTuple):
    """Sum of what was skipped."""

    files: int = 0
    bytes: int = 0
    packets: int = 0

    def plus(self, other: "Skipped") -> "Skipped":
        """Return the sum of both."""
        return Skipped(*(one + more for one, more in zip(self, other, strict=True)))

    def sentence(self) -> str:
        """Return what the user is told."""
        files = f"{format_count(self.files)} file{'s' * (self.files != 1)}"
        what = f"{files}, {format_size(self.bytes)}, {format_count(self.packets)} packets"
        return f"skipped {what}: the watch was too far behind"


def late_files(files: Sequence[TakenFile], directory: str, limit_ns: int) -> list[TakenFile]:
    """Return those of the files that are late, and still there. Raise OSError."""
    newest_ns = max((file.modified_ns for file in list_files(directory)), default=0)
    return [file for file in files if newest_ns - file.modified_ns > limit_ns and file.is_there]


class LateFiles(NamedTuple):
    """Files of a batch that are skipped, their sum, and the times of their packets."""

    files: Sequence[TakenFile] = ()
    skipped: Skipped = Skipped()
    gaps: tuple[CaptureGap, ...] = ()


def count_skipped(files: Sequence[TakenFile], index: GrowingIndex) -> LateFiles:
    """Return what skipping files means. `index` then knows where later ranges of them begin."""
    gaps = list(_gaps(files, index))
    packets = sum(gap.packets for gap in gaps)
    skipped = Skipped(len(files), sum(file.size - file.start for file in files), packets)
    return LateFiles(files, skipped, joined_gaps(gaps))


def _gaps(files: Sequence[TakenFile], index: GrowingIndex) -> Iterator[CaptureGap]:
    for file in files:
        with suppress(OSError, InputError):  # gone meanwhile, or no capture
            if can_grow(file.path):
                (capture,) = open_inputs([file.path], "").files
                part = CaptureRange(capture, file.start, file.size, file.is_closed)
                found = index.index([part], SPLIT_BYTES)
                if found.earliest_time_ns is not None and found.latest_time_ns is not None:
                    yield CaptureGap(
                        begin_ns=found.earliest_time_ns, end_ns=found.latest_time_ns, packets=found.packets
                    )
