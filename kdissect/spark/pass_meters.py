"""How many bytes of the captures both passes have done, for the progress line of a run on this machine.

Workers append what they did to a file beside those of the run, and the driver adds it up: no message of Spark
tells of a task before it ends. A run on a cluster has no such file.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

import numpy as np
import pyarrow as pa

from kdissect.capture.index.splits import Split

COUNT = Struct("<q")


@dataclass(frozen=True, slots=True)
class ByteMeter:
    """A count of bytes that several processes raise: the file at `path` has one number for each raise."""

    path: str

    def add(self, count: int) -> None:
        """Raise the count. A progress line is not worth a failure, so errors are passed over."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return
        try:
            os.write(descriptor, COUNT.pack(count))  # atomic: O_APPEND, and far below a page
        except OSError:
            pass
        finally:
            os.close(descriptor)

    def total(self) -> int:
        """Return the count."""
        try:
            return int(np.fromfile(self.path, np.int64).sum())
        except OSError:
            return 0


@dataclass(frozen=True, slots=True)
class PassMeters:
    """The meters of both passes, and how many bytes there are to read."""

    scanned: ByteMeter
    dissected: ByteMeter
    size: int

    @classmethod
    def new(cls, folder: Path, splits: Sequence[Split]) -> "PassMeters":
        """Return meters at nothing, whose files lie in a folder."""
        size = sum(split.stop - split.start for split in splits)
        return cls(ByteMeter(str(folder / "scanned")), ByteMeter(str(folder / "dissected")), size)

    def dissecting(
        self, batches: Iterable[pa.RecordBatch], splits: Sequence[Split], partitions: int
    ) -> Iterator[pa.RecordBatch]:
        """Pass on the pieces of one of so many partitions, in order of splits, and count what is behind them.

        A partition stands for its share of each split.
        """
        done = 0
        for batch in batches:
            yield batch
            reached = batch["split"][batch.num_rows - 1].as_py() + 1 if batch.num_rows else done
            self.dissected.add(sum(split.stop - split.start for split in splits[done:reached]) // partitions)
            done = max(done, reached)
        self.dissected.add(sum(split.stop - split.start for split in splits[done:]) // partitions)
