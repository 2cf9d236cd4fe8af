"""Pass one while Spark starts: the threads that index captures scan their splits, too.

One walk of this process does what an index and a stage of Spark would do one after the other (see
`capture.index.range_pieces`). Nothing waits for Spark, whose start takes longer in most cases, and the job
has one stage instead of two, which saves another third of a second. The descriptors lie in one file,
partitioned as a shuffle would do it, which the tasks of pass two read. Spark scans the splits that are left.

This serves local runs only, whose tasks see the files of this machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

from kdissect.capture.index.index import RANGE_BYTES, SPLIT_BYTES
from kdissect.capture.index.range_pieces import SplitScans
from kdissect.capture.index.sampling import Sample
from kdissect.capture.index.splits import Split
from kdissect.memory import release_memory
from kdissect.spark import tasks
from kdissect.spark.arrow_ipc import Blob, pieces_blob
from kdissect.spark.failures import disk_full_explained
from kdissect.spark.file_parts import FilePart, FilePartWriter
from kdissect.spark.partitioning import Partitioning

FEW_CORES = 4
"""On more cores, Spark's processes are faster than threads of one process once they are there."""
RANGES_A_CORE = 4  # so that all threads end together
MANY_CONNECTIONS = 20_000
"""So many meet a split of 32 MB with few packets each: 100,000 took 8.4 s, and 7.9 with splits of 64 MB."""
LARGE_SEGMENT = 1 << 10
"""Bytes from which on a split of 32 MB has few exchanges: mixed traffic took 4.39 s, and 4.16 with splits of
64 MB, bulk traffic 2.18 and 1.98. Small messages took as long, and 110 MiB more at the peak of all processes.
"""


@dataclass(frozen=True, slots=True)
class LocalScan:
    """The splits that were scanned here."""

    scanned: frozenset[int]
    """Their ordinals."""
    shares: Partitioning
    blobs: tuple[tuple[Blob, ...], ...]
    """For each partition: the ordinal of a split, and the place of its descriptors. In order."""

    @classmethod
    def of(cls, kept: Mapping[int, "Sequence[PartitionPart]"], shares: Partitioning) -> "LocalScan":
        """Return the scan of the splits of which parts were kept, by ordinal."""
        blobs: list[list[Blob]] = [[] for _ in range(shares.partitions)]
        for ordinal, parts in sorted(kept.items()):
            for part in parts:
                blobs[part.partition].append((ordinal, part.place))
        return cls(frozenset(kept), shares, tuple(map(tuple, blobs)))


class PartitionPart(NamedTuple):
    """Descriptors of a split for one partition."""

    partition: int
    place: FilePart


class LocalScanner:
    """Makes pass one of splits with the threads of an index, and puts their descriptors into one file."""

    def __init__(
        self,
        ports: Sequence[int],
        sample: Sample,
        shares: Partitioning,
        writer: FilePartWriter,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self.sample, self.shares = sample, shares
        self.scans: SplitScans[list[PartitionPart]] = SplitScans(ports, self.keep, goes_on)
        self._writer, self._writing = writer, Lock()

    @property
    def split_bytes(self) -> int:
        """Return how large a split should be: it takes time, whatever it holds, and each connection in it."""
        is_large = self._meets_many or self.sample.segment_bytes >= LARGE_SEGMENT
        return 2 * SPLIT_BYTES if is_large else SPLIT_BYTES

    @property
    def _meets_many(self) -> bool:
        return self.sample.connections >= MANY_CONNECTIONS

    def range_bytes(self, cores: int) -> int:
        """Return how large a range of the index should be, so that its threads end together."""
        return min(RANGE_BYTES, self.sample.bytes // (RANGES_A_CORE * cores))

    def result(self, splits: Sequence[Split]) -> LocalScan:
        """Return what was scanned of the splits of the index. Nothing is scanned any more."""
        kept = self.scans.end(splits)
        if self._meets_many:
            release_memory()  # of the threads, for the tasks; it takes 0.05 s
        return LocalScan.of(kept, self.shares)

    def keep(self, pieces: pa.RecordBatch) -> list[PartitionPart]:
        """Write the pieces of a split. Return their places. Raise DiskFullError."""
        made = [
            (number, pieces_blob(rows))
            for number, rows in tasks.split_by_partition(pieces, self.shares.of_bucket)
        ]
        with disk_full_explained(), self._writing:
            return [PartitionPart(number, self._writer.put(blob)) for number, blob in made]
