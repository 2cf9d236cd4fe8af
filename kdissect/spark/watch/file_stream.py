"""The streaming reader of the data source: capture files of a directory as they grow, as rows of FILES.

    spark.readStream.format("kdissect").option("table", "files").option("journal", FILE).load(DIRECTORY)

An offset is a number of the journal (`file_journal`): a range of a file. Ranges that are found at the same
time are taken in order of the first packets of its files. A micro-batch has at most `maxFiles` ranges. A
directory at a URI is listed so seldom that listing it takes a fifth of the time at most.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import plan_file
from kdissect.capture.index.range_scan import scan_range
from kdissect.capture.index.split_stats import FIRST_NS, PACKETS
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.storage import is_uri
from kdissect.spark.watch.closed_files import files_to_read
from kdissect.spark.watch.file_journal import FileJournal, TakenFile

FILES = (
    "number long, path string, size long, modified_ns long, head string, head_bytes long, "
    "start long, is_closed boolean"
)
"""The columns of a capture file in a stream: the fields of TakenFile."""

MOST_FILES = 64
SETTLE_SECONDS = 30.0
FIRST_BYTES = 1 << 20  # of a file: they hold its first packet
LISTING_SHARE = 5
FORGOTTEN_AT = 10_000  # lines of the journal
NS_PER_S = 1_000_000_000


@dataclass
class FileRange(InputPartition):
    """The files of a micro-batch."""

    files: list[TakenFile]


class FileStream(DataSourceStreamReader):
    """Offers files of a directory as they grow. Raise ValueError for options that are missing or wrong."""

    def __init__(self, options: Mapping[str, str]) -> None:
        try:
            self._directory, self._journal_path = options["path"], Path(options["journal"])
            self._most_files = int(options.get("maxFiles", MOST_FILES))
            self._settle_ns = round(float(options.get("settle", SETTLE_SECONDS)) * NS_PER_S)
        except KeyError as error:
            raise ValueError(f"a stream of captures needs the option {error}") from None
        self._first = int(options.get("first", 0))
        self._journal: FileJournal | None = None
        self._not_before = 0.0  # on the monotonic clock: the next listing

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - PySpark's name
        """Return the offset before the first file that no batch has."""
        return {"file": self._first}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """Add what has come by now to the journal, and return where the next micro-batch ends."""
        journal = self._open()
        began = time.monotonic()
        if began >= self._not_before:
            seen = files_to_read(self._directory, time.time_ns(), self._settle_ns)
            if is_uri(self._directory):
                self._not_before = began + (time.monotonic() - began) * LISTING_SHARE
            journal.take(in_order_of_time(journal.new_files(seen)))
        return {"file": max(start["file"], min(start["file"] + self._most_files, journal.next_number))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the files of a micro-batch; the same ones whenever it is done again."""
        files = self._open().files(start["file"], end["file"])
        return [FileRange(files)] if files else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Return a row for each file."""
        assert isinstance(partition, FileRange)
        yield from map(astuple, partition.files)

    def commit(self, end: dict[str, int]) -> None:
        """Forget files that were processed and are gone, from time to time."""
        journal = self._open()
        if len(journal) >= FORGOTTEN_AT:
            journal.forget(end["file"])

    def _open(self) -> FileJournal:
        if self._journal is None:
            self._journal = FileJournal(self._journal_path)
        return self._journal


def in_order_of_time(files: Sequence[TakenFile]) -> list[TakenFile]:
    """Return files in order of their first packets, numbered as they are. Those without packets come last."""
    if len(files) < 2:
        return list(files)
    numbers = [file.number for file in files]
    ordered = sorted(files, key=lambda file: (*_first_packet(file), file.path))
    return [replace(file, number=number) for file, number in zip(ordered, numbers, strict=True)]


def _first_packet(file: TakenFile) -> tuple[bool, int]:
    try:
        plan = plan_file(CaptureFile(file.path, file.path), stop=min(file.size, FIRST_BYTES))
        scan = scan_range(plan.tasks()[0])
    except InputError:  # compressed, no capture, or gone: its batch says what it is
        return False, file.modified_ns
    return not scan.counts[PACKETS], scan.counts[FIRST_NS]
