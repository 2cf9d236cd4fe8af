"""How many bytes of the captures both passes have done, for the progress line of a run on this machine.

Workers append what they did to a file beside those of the run, and the driver adds it up: no message of Spark
tells of a task before it ends. A run on a cluster has no such file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.spark.number_log import NumberLog


@dataclass(frozen=True, slots=True)
class ByteMeter(NumberLog):
    """A count of bytes that several processes raise: the log has one number for each raise."""

    def total(self) -> int:
        """Return the count."""
        return sum(self.numbers())


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
            self.dissected.append(
                sum(split.stop - split.start for split in splits[done:reached]) // partitions
            )
            done = max(done, reached)
        self.dissected.append(sum(split.stop - split.start for split in splits[done:]) // partitions)
