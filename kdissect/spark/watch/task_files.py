"""Files of the tasks of a batch: the state that a task goes on from, and the state and rows that it leaves.

Tasks on this machine read and write folders of an attempt (`AttemptFiles`). Tasks of a cluster get the state
with their plan, and return state and rows with their figures (`ReturnedFiles`). So executors need no
directory that they share, and an attempt on a machine that was given up changes nothing.
"""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kdissect.files import ScratchDirectory
from kdissect.spark.watch.hour_writer import write_synced


@dataclass(slots=True)
class LeftFiles:
    """Files that tasks leave; those of several tasks add up."""

    paths: dict[str, str] = field(default_factory=dict)
    """The files of rows: path below the attempt's folder, by path when the batch counts."""
    rows: dict[str, bytes] = field(default_factory=dict)
    """Contents that were returned, by path below the attempt's folder."""
    states: dict[int, bytes] = field(default_factory=dict)
    """States that were returned, by partition."""

    def add(self, other: "LeftFiles") -> None:
        """Add what another task leaves."""
        self.paths |= other.paths
        self.rows |= other.rows
        self.states |= other.states

    def write(self, state: Path, out: Path | None) -> None:
        """Write what was returned into the folders of an attempt, and forget it. Raise OSError."""
        for partition, data in self.states.items():
            write_private(state / state_name(partition), data)
        for path, data in self.rows.items():
            assert out is not None
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            write_synced(out / path, data)
        self.states, self.rows = {}, {}


class TaskFiles(Protocol):
    """See the module's text. Methods raise OSError."""

    def state(self, partition: int) -> tuple[bytes, str] | None:
        """Return the state that the batch before left for a partition, and its name.

        The first batch has none.
        """

    def folder(self) -> AbstractContextManager[Path | None]:
        """Return the folder for the rows of one attempt at a task; None if they are only counted."""

    def leave(self, partition: int, state: bytes, folder: Path | None, paths: Sequence[str]) -> LeftFiles:
        """Leave a state, and the files of rows below the folder."""


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """Folders of this machine. An attempt at a task that is done again has files under names of its own."""

    before: Path | None
    """Folder of the states of the batch before."""
    after: Path
    out: Path | None

    def state(self, partition: int) -> tuple[bytes, str] | None:
        """Return the state that the batch before left."""
        if self.before is None:
            return None
        path = self.before / state_name(partition)
        return path.read_bytes(), str(path)

    def folder(self) -> AbstractContextManager[Path | None]:
        """Return a folder below that of the rows."""
        return nullcontext(None if self.out is None else self.out / secrets.token_hex(8))

    def leave(self, partition: int, state: bytes, folder: Path | None, paths: Sequence[str]) -> LeftFiles:
        """Write the state. The rows are where they belong."""
        write_private(self.after / state_name(partition), state)
        return LeftFiles({path: f"{folder.name}/{path}" for path in paths} if folder else {})


@dataclass(frozen=True, slots=True)
class ReturnedFiles:
    """States that come with the plan; what a task leaves goes to the driver, which writes it."""

    states: Mapping[int, bytes]
    has_rows: bool

    def state(self, partition: int) -> tuple[bytes, str] | None:
        """Return the state that the batch before left."""
        return (self.states[partition], state_name(partition)) if partition in self.states else None

    @contextmanager
    def folder(self) -> Iterator[Path | None]:
        """Return a folder of the executor, which goes with the task."""
        if not self.has_rows:
            yield None
            return
        with ScratchDirectory() as scratch:
            yield scratch

    def leave(self, partition: int, state: bytes, folder: Path | None, paths: Sequence[str]) -> LeftFiles:
        """Return the state and the rows."""
        rows = {path: (folder / path).read_bytes() for path in paths} if folder else {}
        return LeftFiles({path: path for path in paths}, rows, {partition: state})


NO_FILES = ReturnedFiles({}, has_rows=False)


def returned_files(before: Path | None, partitions: int, has_rows: bool) -> ReturnedFiles:
    """Return the files of tasks that go on from the states in a folder. Raise OSError."""
    names = {} if before is None else {number: before / state_name(number) for number in range(partitions)}
    return ReturnedFiles({number: path.read_bytes() for number, path in names.items()}, has_rows)


def state_name(partition: int) -> str:
    """Return the name of the file with the state of a partition."""
    return f"part-{partition:03}"


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its user may read, since it may hold secrets of TLS sessions.

    A repeated attempt replaces it by the same bytes. Raise OSError.
    """
    part = path.with_suffix(f".{secrets.token_hex(8)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
