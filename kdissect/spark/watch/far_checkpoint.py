"""A checkpoint at a URI. A run works on a copy of it, in a directory of this machine that goes with the run.

    <checkpoint>/owner-000007-….json         the run that uses it (`checkpoint_lease`)
    <checkpoint>/watch.json, delta.json      as in `batch_store`
    <checkpoint>/state/00000012-part-000     the state after that batch
    <checkpoint>/partials/00000012.arrow     as in `batch_store`
    <checkpoint>/files/00000000.jsonl        the journal of files, CHUNK batches in each
    <checkpoint>/commits/00000012.json       the last batch that counts

Nothing there is renamed or changed, and no two files must change together. The files of a batch are written
first, its commit last. The highest commit counts: it makes the batch count, and with it the rows that were
written before (`table_places`). The next run removes what belongs to a batch without one. Spark's own record
of batches is not there: a run that goes on begins at the first file that no committed batch has.

Files are named by their last name, and other secrets of a URI are nowhere. State holds bytes of messages and
secrets of TLS sessions, so nobody else should be allowed to read the place.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kdissect.capture.storage import is_uri, within
from kdissect.capture.storage_folder import open_folder
from kdissect.errors import OutputError
from kdissect.spark.watch.batch_store import CheckpointError
from kdissect.spark.watch.checkpoint_lease import LEASE_S, CheckpointLease, LeaseError
from kdissect.spark.watch.closed_files import last_name
from kdissect.spark.watch.file_journal import TakenFile
from kdissect.spark.watch.table_places import in_parallel
from kdissect.streams.carry.value_bytes import CarriedStateError
from kdissect.text import without_password

CHUNK = 64  # batches
COMMIT = re.compile(r"(\d{8,})\.json")
STATE = re.compile(r"(\d{8,})-(.+)")
SINGLE = ("watch.json", "delta.json")
"""Files that are written once."""


class FarCheckpoint:
    """See the module's text. `work` is the directory of the copy; `BatchStore` opens it."""

    def __init__(self, place: str, work: Path, directory: str, lease_s: float = LEASE_S) -> None:
        """Copy the checkpoint. `directory` has the captures.

        Raise CheckpointError if another run uses it, OutputError, CarriedStateError.
        """
        self._label, self._work, self._directory = without_password(place), work, directory
        work.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._folder = open_folder(place)
            self._lease = CheckpointLease(self._folder, lease_s)
        except OSError as error:
            raise OutputError.of(self._label, error) from None
        except LeaseError:
            raise self._in_use() from None
        self._batch = -1
        self._chunk: list[TakenFile] = []  # files of the batches of the newest chunk
        self._there: set[str] = set()
        """Files there of the last batch, which go when another one counts."""
        try:
            self._fetch()
        except OSError as error:
            self.close()
            raise OutputError.of(self._label, error) from None
        except BaseException:
            self.close()
            raise

    def add(self, batch: int, commit: bytes, taken: Sequence[TakenFile]) -> None:
        """Write a batch. Raise CheckpointError if another run has begun to use the place, OSError."""
        self._check_lease()
        if batch // CHUNK != self._batch // CHUNK:
            self._chunk = []
        self._chunk += [replace(file, path=last_name(file.path)) for file in taken]
        if taken:
            self._folder.write(f"files/{batch // CHUNK:08}.jsonl", _lines(self._chunk))
        there = self._local(batch)
        new = {name: path for name, path in there.items() if name not in self._there}
        in_parallel(lambda name: self._folder.write(name, new[name].read_bytes()), new)
        last = f"commits/{batch:08}.json"
        self._check_lease()  # writing may have taken long, and only this object makes the batch count
        self._folder.write(last, commit)
        in_parallel(self._folder.remove, self._there - {*there, last})
        self._there, self._batch = {*there, last}, batch

    def close(self) -> None:
        """End the use of the checkpoint, so that others may use it."""
        self._lease.close()

    def _check_lease(self) -> None:
        try:
            self._lease.check()
        except LeaseError:
            raise self._in_use() from None

    def _local(self, batch: int) -> dict[str, Path]:
        """Return the files of the copy by their names there."""
        single = (self._work / name for name in SINGLE)
        state = (self._work / "state" / f"{batch:08}").glob("*")
        partials = (self._work / "partials").glob("*.arrow")
        return {
            **{path.name: path for path in single if path.exists()},
            **{f"state/{batch:08}-{path.name}": path for path in state},
            **{f"partials/{path.name}": path for path in partials},
        }

    def _in_use(self) -> CheckpointError:
        return CheckpointError(f"another watch uses the checkpoint {self._label}")

    def _fetch(self) -> None:
        commits = sorted(self._numbered("commits", COMMIT))
        if not commits:
            self._remove_all_but(set())
            return
        self._batch = commits[-1]
        last = f"commits/{self._batch:08}.json"
        text = self._folder.read(last)
        commit = self._parsed(last, text)
        spans = [int(span[0]) for span in (commit.get("incidents") or {}).get("spans", [])]
        kept = {f"partials/{batch:08}.arrow" for batch in spans}
        kept |= {
            f"state/{file.name}"
            for file in self._folder.below("state").files()
            if (found := STATE.fullmatch(file.name)) and int(found[1]) == self._batch
        }
        kept |= {file.name for file in self._folder.files() if file.name in SINGLE}
        self._remove_all_but({*kept, last})
        in_parallel(self._copy, kept)
        _write_private(self._work / "commit.json", text)
        self._fetch_journal(int(commit["taken"]))
        self._there = {*kept, last}

    def _copy(self, name: str) -> None:
        folder, _, last = name.rpartition("/")
        found = STATE.fullmatch(last) if folder == "state" else None
        path = self._work / folder / (f"{found[1]}/{found[2]}" if found else last)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_private(path, self._folder.read(name))

    def _fetch_journal(self, taken: int) -> None:
        """Write the journal of the copy: files of committed batches that are still there, and the last one.

        Their lines are one chunk from now on.
        """
        chunks = sorted(file.name for file in self._folder.below("files").files())
        lines = {
            line["number"]: TakenFile(**line)
            for name in chunks
            for line in map(json.loads, self._folder.read(f"files/{name}").splitlines())
            if line["number"] < taken
        }
        there = {file.name for file in open_folder(self._directory).files()}
        latest = {file.path: file for _, file in sorted(lines.items()) if file.path in there}
        kept = sorted({*latest.values(), *([lines[max(lines)]] if lines else [])}, key=_number)
        paths = [replace(file, path=_path(self._directory, file.path)) for file in kept]
        _write_private(self._work / "files.jsonl", _lines(paths))
        self._chunk = kept
        newest = f"{self._batch // CHUNK:08}.jsonl"
        self._folder.write(f"files/{newest}", _lines(kept))
        in_parallel(self._folder.remove, [f"files/{name}" for name in chunks if name != newest])

    def _numbered(self, folder: str, pattern: re.Pattern[str]) -> list[int]:
        names = (file.name for file in self._folder.below(folder).files())
        return [int(found[1]) for name in names if (found := pattern.fullmatch(name))]

    def _remove_all_but(self, kept: set[str]) -> None:
        """Remove what belongs to no committed batch."""
        names = [
            f"{folder}/{file.name}"
            for folder in ("commits", "state", "partials")
            for file in self._folder.below(folder).files()
        ]
        in_parallel(self._folder.remove, [name for name in names if name not in kept])

    def _parsed(self, name: str, text: bytes) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(text)
            return found if isinstance(found["taken"], int) else {}
        except (ValueError, KeyError, TypeError):
            raise CarriedStateError(f"{name} of {self._label} is damaged") from None


def _number(file: TakenFile) -> int:
    return file.number


def _path(directory: str, name: str) -> str:
    return within(directory, name) if is_uri(directory) else os.path.join(directory, name)


def _lines(files: Iterable[TakenFile]) -> bytes:
    return "".join(json.dumps(asdict(file), separators=(",", ":")) + "\n" for file in files).encode()


def _write_private(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
