"""Parquet files that the workers of this machine write themselves.

Spark's own writer would first turn every row into an object of the JVM, which takes longer than dissecting
the capture. Here a worker writes the batches of a table as they are. Each table is a directory with a file
for each partition that has rows, numbered like the partitions, as Spark leaves it. The caller moves all
directories to their place when every task has succeeded.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyarrow import parquet

GROUP_ROWS = 1 << 17
GROUP_BYTES = 64 << 20  # of a row group, uncompressed: a row may hold a record of a megabyte
COMPRESSION, LEVEL = "zstd", 3


class PartWriter:
    """The files of one partition: one for each table that has rows. It is a context manager."""

    def __init__(self, folder: str, number: int, schemas: Mapping[str, pa.Schema]) -> None:
        self._folder, self._number, self._schemas = Path(folder), number, schemas
        self._writers: dict[str, parquet.ParquetWriter] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        """Add rows to a table."""
        if not rows.num_rows:
            return
        waiting = self._waiting.setdefault(table, [])
        waiting.append(rows.cast(self._schemas[table]))
        if sum(map(len, waiting)) >= GROUP_ROWS or sum(one.nbytes for one in waiting) >= GROUP_BYTES:
            self._flush(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for table in self._waiting:
                    self._flush(table)
        finally:
            for writer in self._writers.values():
                writer.close()

    def _flush(self, table: str) -> None:
        waiting, self._waiting[table] = self._waiting[table], []
        if not waiting:
            return
        if table not in self._writers:
            path = part_path(self._folder / table, self._number)
            path.parent.mkdir(exist_ok=True)
            self._writers[table] = parquet.ParquetWriter(
                path,
                self._schemas[table],
                compression=COMPRESSION,
                compression_level=LEVEL,
                use_dictionary=_texts(self._schemas[table]),
            )
        self._writers[table].write_table(pa.Table.from_batches(waiting), row_group_size=GROUP_ROWS)


def _texts(schema: pa.Schema) -> list[str]:
    """Return the columns that repeat. Times and packet numbers with a dictionary take twice the room."""
    return [field.name for field in schema if pa.types.is_string(field.type)]


def part_path(folder: Path, number: int) -> Path:
    """Return the file of a partition in the directory of its table."""
    return folder / f"part-{number:05}.{COMPRESSION}.parquet"


def write_parts(
    number: int,
    tables: Iterable[tuple[str, pa.RecordBatch]],
    folder: str,
    schemas: Mapping[str, pa.Schema],
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Write the rows of the tables in `schemas`. Yield those of all others."""
    with PartWriter(folder, number, schemas) as writer:
        for table, rows in tables:
            if table in schemas:
                writer.write(table, rows)
            else:
                yield table, rows


def complete_parts(folder: Path, schemas: Mapping[str, pa.Schema]) -> None:
    """Write a file with nothing but columns for each table without rows."""
    for table, schema in schemas.items():
        (folder / table).mkdir(exist_ok=True)
        if not any((folder / table).iterdir()):
            parquet.write_table(schema.empty_table(), part_path(folder / table, 0), compression=COMPRESSION)
