"""Writing public tables: whole or not at all.

Spark's writers fill a hidden directory beside the target; when every table is there it takes the target's name by one
rename. Each table is a directory `<table>` of part files, one per partition of the job that made it.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kdissect.spreadsheet import harmless_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Format(StrEnum):
    """File formats of `export`."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


_WRITERS: Mapping[Format, Callable[["DataFrame", str], None]] = {
    Format.PARQUET: lambda frame, path: frame.write.parquet(path, compression="zstd"),
    Format.JSONL: lambda frame, path: frame.write.json(path, ignoreNullFields=False),
    # RFC 4180: a quote inside quotes is doubled; null is empty, an empty text is ""
    Format.CSV: lambda frame, path: frame.write.csv(
        path, header=True, escape='"', emptyValue='""', nullValue=""
    ),
}

FINISH: Mapping[Format, Callable[[pa.RecordBatch], pa.RecordBatch]] = {Format.CSV: harmless_batch}
"""What is done to batches that are to be written in a format."""

_BOOKKEEPING = ("_SUCCESS", "._SUCCESS.crc", ".part-*.crc")  # of Hadoop's, of no use to anyone here


class OutputRefused(Exception):
    """The target cannot be written; the message is one sentence for the user."""

    @classmethod
    def of(cls, target: Path, error: OSError) -> "OutputRefused":
        """Say what the operating system said of the target."""
        in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "not a directory" if in_the_way else (error.strerror or str(error)).lower()
        return cls(f"cannot write to {target}: {reason}")


class TableDirectory:
    """The directory that an export makes."""

    def __init__(self, target: Path, overwrite: bool = False) -> None:
        """Raise OutputRefused, before any work, for a target that cannot be written or would be lost."""
        self.target, self._overwrite = target, overwrite
        self._part = target.parent / f".{target.name}.{os.getpid()}.part"
        try:
            if target.exists() and not target.is_dir():
                raise OutputRefused(f"{target} is there and is not a directory")
            if target.is_dir() and any(target.iterdir()) and not overwrite:
                raise OutputRefused(f"{target} is not empty: choose another directory, or give --overwrite")
            target.parent.mkdir(parents=True, exist_ok=True)
            self._part.mkdir()
        except OSError as error:
            raise OutputRefused.of(target, error) from None

    def write(self, tables: Mapping[str, "DataFrame"], format: Format) -> None:
        """Write every table; the target appears when all are written."""
        for name, frame in tables.items():
            folder = self._part / name
            _WRITERS[format](frame, folder.resolve().as_uri())
            for pattern in _BOOKKEEPING:
                for path in folder.glob(pattern):
                    path.unlink()
        old = self._part.with_suffix(".old")
        if self._overwrite and self.target.is_dir():
            self.target.rename(old)
        self._part.rename(self.target)
        shutil.rmtree(old, ignore_errors=True)

    def abandon(self) -> None:
        """Remove what was not finished; nothing if all was."""
        shutil.rmtree(self._part, ignore_errors=True)
