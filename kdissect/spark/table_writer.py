"""Writing public tables: whole or not at all.

Spark's writers fill a hidden directory beside the target; when every table is there it takes the target's name by one
rename. Each table is a directory `<table>` of part files, one per partition of the job that made it.

Object stores know no renaming, so at a URI each table is whole when `_SUCCESS` is in its directory. A local run writes
here and copies through pyarrow's file systems, by which captures are read too. The executors of a cluster write by
themselves, through Hadoop's file systems as the cluster has them.
"""

import shutil
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdissect.capture.storage import (
    file_system,
    is_uri,
    local_path,
)
from kdissect.errors import OutputError
from kdissect.files import (
    FileLock,
    ScratchDirectory,
    move_into_place,
    part_path,
    recover_replaced,
)
from kdissect.tables.spreadsheet import csv_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter


class TableFormat(StrEnum):
    """File formats of `export`."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


_WRITERS: Mapping[TableFormat, Callable[["DataFrameWriter", str], None]] = {
    TableFormat.PARQUET: lambda write, path: write.parquet(path, compression="zstd"),
    TableFormat.JSONL: lambda write, path: write.json(path, ignoreNullFields=False),
    # RFC 4180: a quote inside quotes is doubled; null is empty, an empty text is ""
    TableFormat.CSV: lambda write, path: write.csv(
        path, header=True, escape='"', emptyValue='""', nullValue=""
    ),
}

FINISH: Mapping[TableFormat, Callable[[pa.RecordBatch], pa.RecordBatch]] = {TableFormat.CSV: csv_batch}
"""What is done to batches that are to be written in a format."""

WHOLE = "_SUCCESS"
"""Hadoop's mark of a directory that is whole."""

_BOOKKEEPING = ("_SUCCESS", "._SUCCESS.crc", ".part-*.crc")  # of Hadoop's, of no use to anyone here


class TableDirectory:
    """The directory that an export makes."""

    def __init__(self, target: Path, overwrite: bool = False) -> None:
        """Raise OutputRefused, before any work, for a target that cannot be written or would be lost."""
        self.target, self._overwrite = target, overwrite
        try:
            recover_replaced(target)
            if target.exists() and not target.is_dir():
                raise OutputError(f"{target} is there and is not a directory")
            if target.is_dir() and any(target.iterdir()) and not overwrite:
                raise OutputError(f"{target} is not empty: choose another directory, or give --overwrite")
            target.parent.mkdir(parents=True, exist_ok=True)
            self._part = part_path(target)
            self._part.mkdir()
            self._claim = FileLock(self._part)
        except OSError as error:
            raise OutputError.of(target, error) from None

    def write(self, tables: Mapping[str, "DataFrame"], format: TableFormat) -> None:
        """Write every table; the target appears when all are written."""
        for name, frame in tables.items():
            folder = self._part / name
            _WRITERS[format](frame.write, folder.resolve().as_uri())
            for pattern in _BOOKKEEPING:
                for path in folder.glob(pattern):
                    path.unlink()
        move_into_place(self._part, self.target, self._overwrite)

    def abandon(self) -> None:
        """Remove what was not finished; nothing if all was."""
        shutil.rmtree(self._part, ignore_errors=True)
        self._claim.end()


class TableStore:
    """The place at a URI that an export fills."""

    def __init__(self, uri: str, overwrite: bool, near: bool) -> None:
        """Raise OutputRefused, before any work, for a place that a local run (`near`) cannot write, or would lose."""
        self._uri, self._overwrite, self._near = uri.rstrip("/"), overwrite, near
        self._spool = ScratchDirectory()
        if not near:
            return  # the cluster's file systems are the executors' own: they will say
        try:
            self._system, self._inside = file_system(self._uri)
            self._system.create_dir(self._inside, recursive=True)
            if self._contents() and not overwrite:
                raise OutputError(f"{uri} is not empty: choose another directory, or give --overwrite")
        except OSError as error:
            raise OutputError.of(uri, error) from None

    def write(self, tables: Mapping[str, "DataFrame"], format: TableFormat) -> None:
        """Write every table."""
        if not self._near:
            for name, frame in tables.items():
                write = frame.write.mode("overwrite" if self._overwrite else "error")
                _WRITERS[format](write, f"{_as_hadoop_says(self._uri)}/{name}")
            return
        from pyarrow.fs import copy_files

        here = TableDirectory(self._spool.path / "tables")
        here.write(tables, format)
        for found in self._contents():
            (self._system.delete_file if found.is_file else self._system.delete_dir)(found.path)
        for name in tables:
            target = f"{self._inside}/{name}"
            self._system.create_dir(target)
            copy_files(str(here.target / name), target, destination_filesystem=self._system)
            with self._system.open_output_stream(f"{target}/{WHOLE}"):
                pass

    def abandon(self) -> None:
        """Remove what lies on this machine."""
        self._spool.end()

    def _contents(self) -> list[Any]:
        from pyarrow.fs import FileSelector

        return list(self._system.get_file_info(FileSelector(self._inside)))


def _as_hadoop_says(uri: str) -> str:
    return uri.replace("s3://", "s3a://", 1)


def table_target(out: str, overwrite: bool, near: bool) -> TableDirectory | TableStore:
    """Give where an export goes; `near`: Spark runs on this machine. Raises OutputRefused if it cannot go there."""
    return (
        TableStore(out, overwrite, near) if is_uri(out) else TableDirectory(Path(local_path(out)), overwrite)
    )
