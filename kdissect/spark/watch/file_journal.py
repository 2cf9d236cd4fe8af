"""The journal of a watch: every file that was taken, numbered in the order in which files are read.

The offset of the stream is a number of this journal, so a batch that is done again has the same files in the
same order. The journal is a file of JSON lines in the checkpoint. A line is written and synced before its
number is offered; a last line that a killed process left unfinished was never offered, and is cut off.

A capture is taken as it grows: a line is a range of its bytes, from the size that it had before to the size
that it has now. It may end within a packet (`growing_index`). The last range says that the file is closed. A
compressed file is taken once, when it is closed: what is added later is not read, and the file is reported.

A ring writes new files under old names. So a file is known by its path and the first bytes, which hold the
time of its first packet.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from kdissect.capture.formats.pcap import MAGICS
from kdissect.capture.formats.pcapng import SECTION_MAGIC
from kdissect.capture.storage import CaptureStorage, open_storage
from kdissect.spark.watch.closed_files import HEAD_BYTES, SeenFile, list_files
from kdissect.streams.carry.value_bytes import CarriedStateError

MAGIC_BYTES = 4
LOCK_SECONDS, POLL_SECONDS = 30.0, 0.05
SMALLEST_BYTES = 64  # of a capture that is not closed: it has more than the header of the file
GROWING = (*MAGICS, SECTION_MAGIC)


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A line of the journal: what a file had grown by when it was looked at."""

    number: int
    path: str
    size: int
    modified_ns: int
    head: str  # digest of its first bytes
    head_bytes: int
    start: int = 0  # file offset behind what was taken before
    is_closed: bool = True

    @property
    def is_there(self) -> bool:
        """Return whether the file is still the one that was taken, however much it has grown."""
        try:
            with open_storage(self.path) as file:
                return _head(file, self.head_bytes) == self.head and file.size >= self.size
        except OSError:
            return False

    def is_all_of(self, file: SeenFile) -> bool:
        """Return whether nothing is left to take of a file of this path."""
        same = (file.size, file.modified_ns) == (self.size, self.modified_ns)
        return same and (self.is_closed or not file.is_closed)


class FileJournal:
    """See the module's text. A process that has it open keeps others away until it ends."""

    def __init__(self, path: Path, patience_s: float = LOCK_SECONDS) -> None:
        """Read a journal, or begin one. Raise CarriedStateError for a damaged one or one in use, OSError."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path.with_suffix(".lock"), patience_s)
        with path.open("ab+") as file:
            file.seek(0)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                file.truncate(whole)
        self._lines = _lines_of(path, data[:whole])
        self._latest = {line.path: line for line in self._lines}
        self.grown: set[str] = set()

    def close(self) -> None:
        """Release the lock of the journal."""
        os.close(self._lock)

    @property
    def next_number(self) -> int:
        """The number that the next file gets."""
        return self._lines[-1].number + 1 if self._lines else 0

    def files(self, start: int, stop: int) -> list[TakenFile]:
        """Return the files with the numbers from `start` to before `stop`. Raise CarriedStateError."""
        found = [line for line in self._lines if start <= line.number < stop]
        if [line.number for line in found] != list(range(start, stop)):
            raise CarriedStateError(f"{self._path} does not hold the files {start} to {stop - 1} any more")
        return found

    def new_files(self, seen: Iterable[SeenFile]) -> list[TakenFile]:
        """Return what was not taken yet of files, in their order, numbered from `next_number` on."""
        found: list[TakenFile] = []
        for file in seen:
            known = self._latest.get(file.path)
            if known is not None and known.is_all_of(file):
                continue
            with suppress(OSError):  # its ring has removed it
                taken = self._rest_of(file, known, self.next_number + len(found))
                if taken is not None:
                    found.append(taken)
        return found

    def _rest_of(self, file: SeenFile, known: TakenFile | None, number: int) -> TakenFile | None:
        """Return what is new of a file; None if that is nothing yet. Raise OSError."""
        grows = can_grow(file.path)
        start = known.size if known is not None and known.is_there else 0
        if known is not None and start:
            if not grows:
                self._note_growth(file, known)
                return None
            if file.size == start and known.is_closed:
                return None
        elif not file.is_closed and (not grows or file.size < SMALLEST_BYTES):
            return None
        length = min(file.size, HEAD_BYTES)
        head = head_of(file.path, length)
        return TakenFile(number, file.path, file.size, file.modified_ns, head, length, start, file.is_closed)

    def take(self, files: Sequence[TakenFile]) -> None:
        """Write files into the journal, numbered from `next_number` on. Raise OSError."""
        if not files:
            return
        text = "".join(json.dumps(asdict(file), separators=(",", ":")) + "\n" for file in files)
        with self._path.open("ab") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        self._lines += files
        self._latest |= {file.path: file for file in files}

    def forget(self, before: int) -> None:
        """Drop the lines of files that nobody needs: with a lower number, and gone. The last one stays."""
        kept = [
            line
            for line in self._lines
            if line.number >= before or line is self._lines[-1] or (self._is_latest(line) and line.is_there)
        ]
        part = self._path.with_suffix(".part")
        part.write_text("".join(json.dumps(asdict(line), separators=(",", ":")) + "\n" for line in kept))
        part.replace(self._path)
        self._lines = kept
        self._latest = {line.path: line for line in kept}

    def __len__(self) -> int:
        return len(self._lines)

    def _is_latest(self, line: TakenFile) -> bool:
        return self._latest[line.path] is line

    def _note_growth(self, file: SeenFile, known: TakenFile) -> None:
        if file.path not in self.grown and file.size > known.size:
            self.grown.add(file.path)
            with grown_file(self._path).open("a") as out:
                out.write(json.dumps(file.path) + "\n")


def is_behind(journal: Path, done: int, directory: str) -> bool:
    """Return whether a directory has files that were not taken yet, or have a number from `done` on.

    It reads the journal of another process, and treats all files as closed. Raise OSError.
    """
    data = journal.read_bytes() if journal.exists() else b""
    taken = _lines_of(journal, data[: data.rfind(b"\n") + 1])
    latest = {line.path: line for line in taken}
    if taken and taken[-1].number >= done:
        return True
    for file in list_files(directory):
        known = latest.get(file.path)
        if known is None or not (known.is_all_of(file) or (known.is_there and _is_done(file, known))):
            return True
    return False


def _is_done(file: SeenFile, known: TakenFile) -> bool:
    """Return whether nothing more is taken of a file that is still the same."""
    return (file.size == known.size and known.is_closed) or not can_grow(file.path)


def can_grow(path: str) -> bool:
    """Return whether a file is read as it grows: a capture that is not compressed. Raise OSError."""
    with open_storage(path) as file:
        return file.read(MAGIC_BYTES, 0) in GROWING


def taken_files(journal: Path, before: int) -> list[TakenFile]:
    """Return the files of the journal of another process with a lower number than `before`. Raise OSError."""
    data = journal.read_bytes() if journal.exists() else b""
    return [file for file in _lines_of(journal, data[: data.rfind(b"\n") + 1]) if file.number < before]


def _lines_of(path: Path, data: bytes) -> list[TakenFile]:
    try:
        return [TakenFile(**json.loads(line)) for line in data.splitlines()]
    except (ValueError, TypeError):
        raise CarriedStateError(f"{path} is damaged") from None


def grown_file(journal: Path) -> Path:
    """Return the file that names, one a line, the files that grew after they were taken."""
    return journal.with_suffix(".grown")


def _locked(path: Path, patience_s: float) -> int:
    """Return the descriptor of a lock that ends with this process.

    Spark of a run that was killed may hold it for a moment. Raise CarriedStateError if it is held for longer.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + patience_s
    while not _lock_now(lock):
        if time.monotonic() > until:
            os.close(lock)
            raise CarriedStateError(f"another process uses {path.parent}")
        time.sleep(POLL_SECONDS)
    return lock


def _lock_now(lock: int) -> bool:
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def head_of(path: str, length: int) -> str:
    """Return the digest of the first bytes of a file. Raise OSError."""
    with open_storage(path) as file:
        return _head(file, length)


def _head(file: CaptureStorage, length: int) -> str:
    return blake2b(file.read(length, 0), digest_size=16).hexdigest()
