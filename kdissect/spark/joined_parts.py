"""One file of a table, joined from the part files that Spark's tasks wrote.

The parts are read one after the other, in the order of their names, so memory stays bounded.
"""

import shutil
from pathlib import Path
from typing import IO

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
