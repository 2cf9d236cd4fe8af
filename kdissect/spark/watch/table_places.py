"""The places that tables of a watch are appended to: a directory of this machine, or a folder at a URI.

    <out>/<table>/hour=…/batch-00000012-003.parquet
    <out>/_figures/                  what reports are made from (`figure_files`)
    <out>/_pending-00000012.json     at a URI: what a batch is about to write

Tasks write into a folder of an attempt, on this machine. When all of them are done, `publish` moves its files
to their names, or uploads them. It does so before the batch counts: a run that ends in between has left files
of a batch that does not count, and the next one removes them (`clean`). A directory is searched for them. At
a URI that could take thousands of requests, so there a list of these files is written before the first one.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from kdissect.capture.storage import is_uri
from kdissect.capture.storage_folder import StorageFolder, open_folder
from kdissect.errors import OutputError
from kdissect.spark.watch.figure_files import FOLDER
from kdissect.spark.watch.hour_writer import batch_of
from kdissect.text import without_password

ATTEMPT = ".attempt-"
FILES = "batch-*.parquet"
PENDING = re.compile(r"_pending-(\d{8,})\.json")
REQUESTS = 8  # at a time


class TablePlace(Protocol):
    """See the module's text. Methods raise OSError."""

    label: str
    figures: StorageFolder
    attempts: Path
    """The directory in which attempts have their folders."""

    def publish(self, batch: int, files: Mapping[str, Path]) -> None:
        """Move files of a batch to their names below the place, or upload them."""

    def settle(self, batch: int) -> None:
        """Note that a batch counts."""

    def clean(self, last_batch: int) -> None:
        """Remove the files of batches that do not count."""


def open_tables(out: str | Path, attempts: Path) -> TablePlace:
    """Return the place of tables, made if it is a directory. Raise OSError, OutputError.

    Attempts at a place that is not on this machine have their folders in `attempts`.
    """
    if not is_uri(str(out)):
        return NearTables(Path(out))
    try:
        return FarTables(str(out), attempts)
    except OSError as error:
        raise OutputError.of(without_password(str(out)), error) from None


class NearTables:
    """Tables in a directory of this machine."""

    def __init__(self, path: Path) -> None:
        self.path, self.label, self.attempts = path, str(path), path
        self.figures = open_folder(path / FOLDER)
        path.mkdir(parents=True, exist_ok=True)

    def publish(self, batch: int, files: Mapping[str, Path]) -> None:  # noqa: ARG002 - as the other place
        """Move the files of a batch."""
        for name, path in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            path.replace(self.path / name)

    def settle(self, batch: int) -> None:
        """Nothing is left to do."""

    def clean(self, last_batch: int) -> None:
        """Remove the files of batches that do not count."""
        for pattern in (f"*/hour=*/{FILES}", f"*/{FILES}"):
            for path in self.path.glob(pattern):
                if batch_of(path.name) > last_batch:
                    path.unlink(missing_ok=True)


class FarTables:
    """Tables at a URI."""

    def __init__(self, uri: str, attempts: Path) -> None:
        self.label, self.attempts = without_password(uri), attempts
        self._folder = open_folder(uri)
        self.figures = self._folder.below(FOLDER)

    def publish(self, batch: int, files: Mapping[str, Path]) -> None:
        """Upload the files of a batch."""
        self._folder.write(_pending(batch), json.dumps(list(files)).encode())
        in_parallel(lambda name: self._folder.take(name, files[name]), files)

    def settle(self, batch: int) -> None:
        """Remove the list of what the batch was about to write."""
        self._folder.remove(_pending(batch))

    def clean(self, last_batch: int) -> None:
        """Remove the files of batches that do not count, by their lists."""
        for file in self._folder.files():
            if (found := PENDING.fullmatch(file.name)) is not None:
                if int(found[1]) > last_batch:
                    names = json.loads(self._folder.read(file.name))
                    in_parallel(self._folder.remove, [name for name in names if ".." not in name])
                self._folder.remove(file.name)


def _pending(batch: int) -> str:
    return f"_pending-{batch:08}.json"


def remove_attempts(folder: Path) -> None:
    """Remove what killed runs have left of their attempts."""
    for attempt in folder.glob(f"{ATTEMPT}*"):
        shutil.rmtree(attempt, ignore_errors=True)


def in_parallel(work: Callable[[str], None], names: Iterable[str]) -> None:
    """Do the work for all names, some at a time. Raise what it raises first."""
    with ThreadPoolExecutor(REQUESTS) as threads:
        list(threads.map(work, names))
