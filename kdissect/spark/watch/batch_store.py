"""Store of a watch: the state of connections and the rows of each batch, exactly once.

    <checkpoint>/watch.json          what the run is about: it must be the same when it goes on
    <checkpoint>/files.jsonl         the journal of files (`file_journal`)
    <checkpoint>/spark/              Spark's own record of batches
    <checkpoint>/commit.json         the last batch that counts: number, time of the captures, names of topics
    <checkpoint>/partials/           what incidents of the last minutes are found from (`recent_incidents`)
    <checkpoint>/state/00000012/     the state after that batch, a file for each partition
    <out>/<table>/hour=…/batch-00000012-003.parquet
    <out>/_figures/                  what reports are made from (`figure_files`)

Tasks write into folders of an attempt. `commit` moves these files to their places and then replaces
commit.json, which alone makes the batch count. A run that ends before that, at whatever moment, has done
nothing: `BatchStore` begins with the removal of everything that belongs to no committed batch, and the batch
is done again from the state of the one before. Rows of the next batch may be seen by readers a moment before
commit.json names it. If the checkpoint lies at a URI, a run works on a copy of it, and a batch counts once
`far_checkpoint` has written it.

The checkpoint is private, since states hold bytes of messages and secrets of TLS sessions. A lock on it
keeps a second run away.
"""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kdissect.cache_directory import is_private
from kdissect.errors import OutputError, UserError
from kdissect.spark.watch.figure_compaction import FigureCompaction
from kdissect.spark.watch.file_journal import TakenFile
from kdissect.spark.watch.hour_writer import write_names
from kdissect.spark.watch.late_files import Skipped
from kdissect.spark.watch.table_places import ATTEMPT, open_tables, remove_attempts
from kdissect.streams.carry.value_bytes import CarriedStateError

FORMAT = 1


class CheckpointError(UserError):
    """A checkpoint cannot be used; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The last batch that counts, -1 before the first."""

    batch: int = -1
    now_ns: int = 0  # latest time of the captures
    taken: int = 0  # number of the next file of the journal
    files: int = 0  # captures that were read, in all
    lost: int = 0  # captures that were gone, or could not be read, when it was their turn
    skipped: list[int] = field(default_factory=lambda: [0] * len(Skipped._fields))  # Skipped, in all
    aged: int = 0  # connections that nobody continued
    finished: bool = False  # all connections have ended: nothing can go on
    rows: dict[str, int] = field(default_factory=dict)  # in all, by table
    names: dict[str, str] = field(default_factory=dict)  # of topics, by id
    brokers: list[list[Any]] = field(default_factory=list)  # node id, host and port of each
    incidents: Any = None  # state of RecentIncidents


class Attempt:
    """The folders into which the tasks of one attempt at a batch write."""

    def __init__(self, checkpoint: Path, attempts: Path | None) -> None:
        """`attempts` is the directory for the folder of rows."""
        name = f"{ATTEMPT}{secrets.token_hex(8)}"
        self.state = checkpoint / "state" / name
        self.state.mkdir(parents=True, mode=0o700)
        self.out = None if attempts is None else attempts / name
        if self.out is not None:
            self.out.mkdir(parents=True)

    def end(self) -> None:
        """Remove what is left of the folders."""
        for folder in (self.state, self.out):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


class CheckpointCopy(Protocol):
    """A place elsewhere that has what is in the checkpoint, so that another machine can go on."""

    def add(self, batch: int, commit: bytes, taken: Sequence[TakenFile]) -> None:
        """Write a batch whose state and partials are in the checkpoint; from now on it counts."""


class BatchStore:
    """See the module's text."""

    def __init__(
        self,
        checkpoint: Path,
        out: str | Path | None,
        about: Mapping[str, Any],
        copy: CheckpointCopy | None = None,
    ) -> None:
        """Open a checkpoint, or begin one. Raise CheckpointError, OutputError, CarriedStateError.

        `about` says what the run depends on; one that goes on must say the same.
        """
        self.checkpoint, self._copy = checkpoint, copy
        try:
            checkpoint.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not is_private(checkpoint):  # a link there could lead anywhere, and state holds secrets of TLS
                raise CheckpointError(
                    f"other users may write to the checkpoint {checkpoint}: name a directory of your own"
                )
            checkpoint.chmod(0o700)  # it may have been there, and open to readers
            self._lock = _locked(checkpoint / "lock")
            _check_same(checkpoint / "watch.json", {"format": FORMAT, **about})
            self.tables = None if out is None else open_tables(out, checkpoint / "rows")
        except OSError as error:
            raise OutputError.of(error.filename or checkpoint, error) from None
        self.figures = None if self.tables is None else FigureCompaction(self.tables.figures)
        self.last = _read_commit(checkpoint / "commit.json")
        self.first_batch = 0 if copy is None else self.last.batch + 1
        """The batch that Spark calls 0: its own record of batches is not copied."""
        self._clean()

    def close(self) -> None:
        """Release the lock of the checkpoint."""
        os.close(self._lock)

    @property
    def journal(self) -> Path:
        """The file of the journal."""
        return self.checkpoint / "files.jsonl"

    @property
    def partials(self) -> Path:
        """The folder of the partials of the last batches."""
        return self.checkpoint / "partials"

    @property
    def spark(self) -> Path:
        """The folder of Spark's own checkpoint."""
        return self.checkpoint / "spark"

    def state(self) -> Path | None:
        """Return the folder with the state after the last batch; None before the first."""
        return self._state_of(self.last.batch) if self.last.batch >= 0 else None

    def attempt(self) -> Attempt:
        """Begin an attempt at the next batch."""
        return Attempt(self.checkpoint, None if self.tables is None else self.tables.attempts)

    def commit(
        self, attempt: Attempt, commit: Commit, files: Mapping[str, str], taken: Sequence[TakenFile] = ()
    ) -> None:
        """Make a batch count. Raise OutputError if there is no room.

        Its tasks wrote `files`: paths in the folder of the attempt, by their paths when the batch counts.
        `taken` is what it has of the journal.
        """
        text = json.dumps(asdict(commit))
        try:
            state = self._state_of(commit.batch)
            attempt.state.rename(state)
            if self.tables is not None:
                self.tables.publish(commit.batch, self._written(attempt, commit, files))
            if self._copy is not None:
                self._copy.add(commit.batch, text.encode(), taken)
            _replace(self.checkpoint / "commit.json", text)
        except OSError as error:
            raise OutputError.of(self.place, error) from None
        before = self.state()
        self.last = commit
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)
        attempt.end()
        self._settle()

    @property
    def place(self) -> str:
        """The place of the tables, or of the checkpoint without tables, as the user knows it."""
        return str(self.checkpoint) if self.tables is None else self.tables.label

    def _written(self, attempt: Attempt, commit: Commit, files: Mapping[str, str]) -> dict[str, Path]:
        """Return the files of an attempt by their paths when the batch counts. Raise OSError."""
        assert attempt.out is not None
        new = {topic: name for topic, name in commit.names.items() if topic not in self.last.names}
        names = {path: path for path in write_names(attempt.out, commit.batch, new)}
        return {path: attempt.out / inside for path, inside in {**files, **names}.items()}

    def _settle(self) -> None:
        """Remove what the last batch makes superfluous. Raise OutputError."""
        if self.tables is not None and self.figures is not None:
            try:
                self.tables.settle(self.last.batch)
                self.figures.clean(self.last.batch)
            except OSError as error:
                raise OutputError.of(self.place, error) from None

    def _state_of(self, batch: int) -> Path:
        return self.checkpoint / "state" / f"{batch:08}"

    def _clean(self) -> None:
        """Remove what belongs to no committed batch. Raise OutputError."""
        remove_attempts(self.checkpoint / "state")
        for state in (self.checkpoint / "state").glob("[0-9]*"):
            if int(state.name) != self.last.batch:
                shutil.rmtree(state, ignore_errors=True)
        if self.tables is not None and self.figures is not None:
            remove_attempts(self.tables.attempts)
            try:
                self.figures.clean(self.last.batch)
                self.tables.clean(self.last.batch)
            except OSError as error:
                raise OutputError.of(self.place, error) from None


def _locked(path: Path) -> int:
    """Return the descriptor of a lock that ends with this process. Raise CheckpointError if it is taken.

    A lock by `lockf` belongs to this process alone. Spark may outlive it for a moment, and does not keep it.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise CheckpointError(f"another watch uses the checkpoint {path.parent}") from None
    return lock


def _check_same(path: Path, about: Mapping[str, Any]) -> None:
    """Write what a run is about, or raise CheckpointError if it was another one."""
    with suppress(FileNotFoundError):
        known = _read_json(path)
        different = [name for name in {**known, **about} if known.get(name) != about.get(name)]
        if different:
            raise CheckpointError(
                f"the checkpoint {path.parent} belongs to a watch with another {different[0]}: "
                f"{known.get(different[0])}"
            )
        return
    _replace(path, json.dumps(dict(about)))


def _read_commit(path: Path) -> Commit:
    with suppress(FileNotFoundError):
        try:
            return Commit(**_read_json(path))
        except TypeError:
            raise CarriedStateError(f"{path} was written by another version of kdissect") from None
    return Commit()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except ValueError:
        raise CarriedStateError(f"{path} is damaged") from None
    return found


def _replace(path: Path, text: str) -> None:
    """Replace a file in one step that survives a loss of power."""
    part = path.with_suffix(".part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
