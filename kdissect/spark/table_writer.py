"""Public tables are written completely or not at all.

Spark's writers fill a hidden directory beside the target, which takes the name of the target by one rename
when every table is written. Each table is a directory of part files, one for each partition of the job that
made it.

Object stores cannot rename, so at a URI a table is complete when `_SUCCESS` is in its directory. A local run
writes to this machine and copies through the file systems of pyarrow, which also read captures. The executors
of a cluster write themselves, through the Hadoop file systems of the cluster.

One file of a table is joined from its part files, one after the other, so memory stays bounded.
"""

import shutil
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from kdissect.capture.storage import (
    file_system,
    is_uri,
    local_path,
)
from kdissect.errors import OutputError
from kdissect.files import ScratchDirectory, UnfinishedOutput, recover_replaced
from kdissect.tables.arrow_columns import escape_csv_batch

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

FINISH: Mapping[TableFormat, Callable[[pa.RecordBatch], pa.RecordBatch]] = {TableFormat.CSV: escape_csv_batch}
"""The last step for batches of a format."""

COMPLETE = "_SUCCESS"
"""Hadoop's mark of a complete directory."""

_BOOKKEEPING = ("_SUCCESS", "._SUCCESS.crc", ".part-*.crc")  # of Hadoop, not needed locally


class TableDirectory:
    """The local directory of an export."""

    def __init__(self, target: Path, overwrite: bool = False) -> None:
        """Raise OutputError, before any work, for a target that cannot be written or would be overwritten."""
        self.target, self._overwrite = target, overwrite
        try:
            if target.exists() and (target.samefile(Path.cwd()) or target.is_mount()):
                raise OutputError(f"{target} cannot be replaced, as it is in use: name a new directory in it")
            recover_replaced(target)
            if target.exists() and not target.is_dir():
                raise OutputError(f"{target} exists and is not a directory")
            if target.is_dir() and any(target.iterdir()) and not overwrite:
                raise OutputError(f"{target} is not empty: choose another directory or use --overwrite")
            target.parent.mkdir(parents=True, exist_ok=True)
            self._part = UnfinishedOutput(target)
            self._part.directory()
        except OSError as error:
            raise OutputError.of(target, error) from None

    def write(self, tables: Mapping[str, "DataFrame"], format: TableFormat, one_file: bool = False) -> None:
        """Write all tables; the target appears when they are complete.

        With `one_file`, each table is one file, such as exchanges.csv, and no directory of parts.
        """
        for name, frame in tables.items():
            folder = self._part.path / name
            _WRITERS[format](frame.write, hadoop_path(folder))
            for pattern in _BOOKKEEPING:
                for path in folder.glob(pattern):
                    path.unlink()
            if one_file:
                join_parts(folder, self._part.path / f"{name}.{format}", format)
                shutil.rmtree(folder)
        self._move()

    def fill(self, write: Callable[[Path], None]) -> None:
        """Have a function write all tables into a folder, which then becomes the target."""
        write(self._part.path)
        self._move()

    def _move(self) -> None:
        try:
            self._part.move(self._overwrite)
        except OSError as error:  # another run was faster
            raise OutputError.of(self.target, error) from None

    def abandon(self) -> None:
        """Remove what is incomplete."""
        self._part.end()


class TableStore:
    """The target of an export at a URI."""

    def __init__(self, uri: str, overwrite: bool, near: bool) -> None:
        """Raise OutputError for a target that a local run (`near`) cannot write or would overwrite."""
        self._uri, self._overwrite, self._near = uri.rstrip("/"), overwrite, near
        self._spool = ScratchDirectory()
        if not near:
            return  # only executors can check the file systems of a cluster
        try:
            self._system, self._inside = file_system(self._uri)
            self._system.create_dir(self._inside, recursive=True)
            if self._contents() and not overwrite:
                raise OutputError(f"{uri} is not empty: choose another directory or use --overwrite")
        except OSError as error:
            raise OutputError.of(uri, error) from None

    def write(self, tables: Mapping[str, "DataFrame"], format: TableFormat) -> None:
        """Write all tables."""
        if not self._near:
            for name, frame in tables.items():
                write = frame.write.mode("overwrite" if self._overwrite else "error")
                _WRITERS[format](write, f"{_hadoop_uri(self._uri)}/{name}")
            return
        from pyarrow.fs import copy_files

        here = TableDirectory(self._spool.path / "tables")
        here.write(tables, format)
        here.abandon()
        for found in self._contents():
            (self._system.delete_file if found.is_file else self._system.delete_dir)(found.path)
        for name in tables:
            target = f"{self._inside}/{name}"
            self._system.create_dir(target)
            copy_files(str(here.target / name), target, destination_filesystem=self._system)
            with self._system.open_output_stream(f"{target}/{COMPLETE}"):
                pass

    def abandon(self) -> None:
        """Remove the temporary files of this machine."""
        self._spool.end()

    def _contents(self) -> list[Any]:
        from pyarrow.fs import FileSelector

        return list(self._system.get_file_info(FileSelector(self._inside)))


def hadoop_path(folder: Path) -> str:
    """Return a local folder as Hadoop takes it: what looks like a URI, but no character is escaped."""
    return f"file://{folder.resolve()}"


def _hadoop_uri(uri: str) -> str:
    return uri.replace("s3://", "s3a://", 1)


def table_target(out: str, overwrite: bool, near: bool) -> TableDirectory | TableStore:
    """Return the target of an export; `near` tells that Spark runs on this machine. Raise OutputError."""
    return (
        TableStore(out, overwrite, near) if is_uri(out) else TableDirectory(Path(local_path(out)), overwrite)
    )


PARTS = "part-*"
COPIED_BYTES = 1 << 20


def join_parts(folder: Path, target: Path, format: str) -> None:
    """Write the parts of a folder to one file of a format: parquet, jsonl or csv."""
    parts = sorted(folder.glob(PARTS))
    if format == "parquet":
        _join_parquet(parts, target)
        return
    with target.open("wb") as out:
        has_header = False
        for part in parts:
            with part.open("rb") as rows:
                header = rows.readline() if format == "csv" else b""
                if header and not has_header:
                    out.write(header)
                    has_header = True
                _copy(rows, out)


def _copy(rows: IO[bytes], out: IO[bytes]) -> None:
    shutil.copyfileobj(rows, out, COPIED_BYTES)


def _join_parquet(parts: list[Path], target: Path) -> None:
    from pyarrow.parquet import ParquetFile, ParquetWriter

    with ParquetWriter(target, ParquetFile(parts[0]).schema_arrow, compression="zstd") as writer:
        for part in parts:
            with ParquetFile(part) as rows:
                for batch in rows.iter_batches():
                    writer.write_batch(batch)
