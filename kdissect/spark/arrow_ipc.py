"""Segment descriptors on their way through Spark: Arrow batches as bytes, and in order of splits on arrival.

A shuffle delivers the descriptors of a partition in any order, and pass two takes them split by split. They
are small beside the payload that they describe, but grow with the capture, so most of them wait in a
temporary file, unless they lie in files already (see `file_parts`).
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from kdissect.capture.segment_index import PIECES
from kdissect.spark.file_parts import FilePart
from kdissect.tables.arrow_streams import Stream, write_streams

Blob: TypeAlias = tuple[int, bytes | FilePart]
"""The ordinal of a split, and descriptors of it as an Arrow IPC stream, or the place of that."""

HELD_BYTES = 16 << 20
_HELD = ""  # the path of what waits here
MANY_PIECES = 1 << 10
"""So many rows of PIECES shrink to a third. Most bytes of few rows are descriptors, which are packed."""


def to_blob(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    """Return a batch as an Arrow IPC stream."""
    return write_streams([Stream(batch, compression)])[0].to_pybytes()  # type: ignore[no-any-return]


def pieces_blob(pieces: pa.RecordBatch) -> bytes:
    """Return rows of PIECES as an Arrow IPC stream, compressed if there are many.

    Spark keeps several copies of a blob at a time on its way from worker to worker.
    """
    return to_blob(pieces, "lz4" if pieces.num_rows >= MANY_PIECES else None)


def from_blob(blob: bytes | FilePart) -> list[pa.RecordBatch]:
    """Return the batches of what `to_blob` returned. Raise OSError if its file cannot be read."""
    content = blob.read() if isinstance(blob, FilePart) else blob
    return pa.ipc.open_stream(content).read_all().to_batches()  # type: ignore[no-any-return]


def numbered_pieces(ordinal: int, blob: bytes | FilePart) -> Iterator[pa.RecordBatch]:
    """Return rows of PIECES of a split, whose ordinal was perhaps not known when they were written."""
    column = PIECES.get_field_index("split")
    for batch in from_blob(blob):
        numbers = pa.array(np.full(len(batch), ordinal, np.int32))
        yield batch.set_column(column, PIECES.field(column), numbers)


def ordered_by_split(blobs: Iterable[Blob], held_bytes: int = HELD_BYTES) -> Iterator[pa.RecordBatch]:
    """Return the batches of one partition in order of splits, holding at most `held_bytes` in memory."""
    with tempfile.SpooledTemporaryFile(max_size=held_bytes, dir=_scratch_folder()) as file:
        places: list[tuple[int, FilePart]] = []
        for ordinal, blob in blobs:
            if isinstance(blob, FilePart):
                places.append((ordinal, blob))
            else:
                places.append((ordinal, FilePart(_HELD, file.tell(), len(blob))))
                file.write(blob)
        for ordinal, part in sorted(places):
            file.seek(part.offset)
            yield from numbered_pieces(ordinal, file.read(part.size) if part.path == _HELD else part)


def _scratch_folder() -> str | None:
    """Return the folder that Spark provides for temporary files; None for that of the system."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((folder for folder in folders if os.path.isdir(folder)), None)
