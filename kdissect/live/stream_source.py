"""Sources of a watch: a directory of others, standard input, or an interface of this machine.

Standard input and an interface become a ring of their own (`own_ring`), in a temporary directory that only
the user may enter and that goes with the run.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kdissect.capture.formats.file_types import InputError
from kdissect.errors import UserError
from kdissect.files import ScratchDirectory
from kdissect.live.own_ring import FILE_SECONDS, OwnRing, ring_number
from kdissect.live.tcpdump import CaptureEndedError, Tcpdump
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.watched_directory import WatchedDirectory

STANDARD_INPUT = "standard input"
RING = "ring"  # name of the folder
KEPT_SECONDS = 90.0  # a minute, and as long as it takes to write a slice of it
FILES_EACH = 4  # look for new packets: a packet waits for the end of its file


class CaptureSettings(NamedTuple):
    """Settings of tcpdump's capture."""

    interface: str
    ports: Sequence[int]
    snaplen: int
    buffer_bytes: int
    immediate: bool = False


class StreamSource(WatchedDirectory):
    """The directory of an own ring; `account` must hear of every batch that counts."""

    def __init__(self, directory: str, label: str, ring: OwnRing, tcpdump: Tcpdump | None = None) -> None:
        super().__init__(directory, label)
        self._ring, self._tcpdump = ring, tcpdump

    def name_of(self, path: str) -> str:
        """Return the name of a file of the ring for the user, who never sees the file itself."""
        return f"{self.label} (file {ring_number(path)})"

    @property
    def has_ended(self) -> bool:
        """Return whether the stream is over, and all of it lies in files."""
        return self._ring.has_ended

    def failure(self) -> UserError | None:
        """Return why the stream has ended, unless that is as it should be."""
        if (error := self._ring.failure) is not None:
            return error if isinstance(error, UserError) else InputError.of(self.label, error)
        if self._tcpdump is not None and self._ring.has_ended:
            return CaptureEndedError(self._tcpdump.ending())
        return None

    def keep_last_minute(self) -> None:
        """Keep files that were read for KEPT_SECONDS, so that a slice of the last minute can be written."""
        self._ring.keep_seconds = KEPT_SECONDS

    def account(self, report: BatchReport) -> None:
        """Remove the files of a batch, or keep them for a while, and note in its report what was lost."""
        self._ring.free(file.path for file in report.read)
        report.skipped_packets = self._ring.skipped
        report.dropped_packets = self._tcpdump.dropped() if self._tcpdump is not None else 0


@contextmanager
def captured(settings: CaptureSettings, every_s: float = FILE_SECONDS) -> Iterator[StreamSource]:
    """Capture on an interface, until the end of the `with` block. Raise UsageError.

    Somebody looks for new packets every `every_s`.
    """
    tcpdump = Tcpdump(*settings)
    try:
        label = f"interface {settings.interface}"
        with ScratchDirectory() as folder, _ring(tcpdump.stream, folder, label, every_s, waits=False) as ring:
            yield StreamSource(str(folder / RING), label, ring, tcpdump)
    finally:
        tcpdump.close()


@contextmanager
def piped(stream: BinaryIO, interrupt: int, every_s: float = FILE_SECONDS) -> Iterator[StreamSource]:
    """Read a capture from a pipe, until it ends or the descriptor `interrupt` can be read."""
    with (
        ScratchDirectory() as folder,
        _ring(stream.fileno(), folder, STANDARD_INPUT, every_s, waits=True, interrupt=interrupt) as ring,
    ):
        yield StreamSource(str(folder / RING), STANDARD_INPUT, ring)


@contextmanager
def _ring(
    stream: int, folder: Path, name: str, every_s: float, *, waits: bool, interrupt: int | None = None
) -> Iterator[OwnRing]:
    (folder / RING).mkdir()
    seconds = min(FILE_SECONDS, every_s / FILES_EACH)
    ring = OwnRing(stream, folder / RING, name, waits=waits, interrupt=interrupt, file_seconds=seconds)
    try:
        yield ring
    finally:
        ring.close()
