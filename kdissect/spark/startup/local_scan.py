"""Pass one while Spark starts: splits that this process scans before there is anybody else to do it.

Reading the packet headers of a gigabyte takes less time than Spark needs to start, and this process has nothing else to
do meanwhile. What it has scanned lies in one file, parted as a shuffle would part it, where the tasks of pass two find it;
Spark scans the splits that are left. If none are, it runs one stage instead of two, which saves it a third of a second more.

For local runs only: tasks must see this machine's files.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.spark import tasks
from kdissect.spark.arrow_ipc import Blob, to_blob
from kdissect.spark.failures import disk_full_explained
from kdissect.spark.partitioning import Partitioning

STAGE_SECONDS = 0.4  # what a stage of Spark takes before and after its work: as long is well spent here when Spark is there
FEW_CONNECTIONS = 20_000  # what is known of more would stay in this process, beside the tasks
USUAL_SPEED = 500e6  # bytes a second, where nothing was scanned yet: of many small packets


@dataclass(frozen=True, slots=True)
class LocalScan:
    """What was scanned ahead: the first splits, in order."""

    path: str
    """Pieces of splits and partitions, one blob after the other."""
    done: int
    """How many splits it holds."""
    shares: Partitioning
    places: tuple[tuple[tuple[int, int, int], ...], ...]
    """For each partition: ordinals of splits, where their blobs begin in the file, and how long they are."""

    def blobs(self, partition: int) -> Iterator[Blob]:
        """Give the pieces of a partition by split."""
        if self.places[partition]:
            with Path(self.path).open("rb") as file:
                for ordinal, at, size in self.places[partition]:
                    file.seek(at)
                    yield ordinal, file.read(size)


def scan_locally(
    splits: Sequence[Split],
    ports: Sequence[int],
    shares: Partitioning,
    path: Path,
    spark_is_up: Callable[[], bool],
    seconds: float = STAGE_SECONDS,
) -> LocalScan:
    """Scan splits into a new file `path` until Spark is there and would take the rest over sooner.

    A split that cannot be read ends it: whoever works on it next has the ways to say why. Raises DiskFull.
    """
    places: list[list[tuple[int, int, int]]] = [[] for _ in range(shares.partitions)]
    left = sum(_bytes(split) for split in splits)
    began, passed, done = time.monotonic(), 0, 0
    ordinals = [pa.record_batch({"split": [split.index]}) for split in splits]
    scanned = tasks.scan_step(ordinals, splits, ports)
    with disk_full_explained(), path.open("wb") as file:
        for split in splits:
            speed = passed / max(time.monotonic() - began, 1e-3) if passed else USUAL_SPEED
            if spark_is_up() and left / speed > seconds:
                break
            try:
                pieces = next(scanned)
            except OSError:
                break
            parts = [
                (number, to_blob(rows)) for number, rows in tasks.split_by_partition(pieces, shares.of_bucket)
            ]
            for number, blob in parts:
                at = file.tell()
                file.write(blob)
                places[number].append((split.index, at, len(blob)))
            file.flush()
            done, passed, left = done + 1, passed + _bytes(split), left - _bytes(split)
    pa.default_memory_pool().release_unused()
    kept = tuple(tuple(place for place in of_one if place[0] < done) for of_one in places)
    return LocalScan(str(path), done, shares, kept)


def _bytes(split: Split) -> int:
    return split.stop - split.start
