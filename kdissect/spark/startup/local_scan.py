"""Pass one while Spark starts: this process scans splits that Spark would scan later.

Reading the packet headers of a gigabyte takes less time than Spark needs to start, and this process is idle
meanwhile. The scanned splits lie in one file, partitioned as a shuffle would do it, which the tasks of pass
two read. Spark scans the remaining splits. If none remain, it runs one stage instead of two, which saves
another third of a second.

This serves local runs only, whose tasks see the files of this machine.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.spark import tasks
from kdissect.spark.arrow_ipc import Blob, pieces_blob
from kdissect.spark.failures import disk_full_explained
from kdissect.spark.file_parts import parts_in
from kdissect.spark.partitioning import Partitioning
from kdissect.spark.reading_stop import ReadingStop

STAGE_SECONDS = 0.4  # overhead of a stage of Spark, which this process may spend on scanning instead
FEW_CONNECTIONS = 20_000  # the state of more would stay in the memory of this process, beside the tasks

# The time of a scan before anything was measured: for each packet, and for each byte of packets up to a size.
# More of them is skipped (see `capture.formats.head_reads`).
PACKET_SECONDS, BYTE_SECONDS, MOST_BYTES = 120e-9, 0.27e-9, 8 << 10


@dataclass(frozen=True, slots=True)
class LocalScan:
    """The splits that were scanned here: the first ones of the captures, in order."""

    done: int
    """How many splits were scanned."""
    shares: Partitioning
    blobs: tuple[tuple[Blob, ...], ...]
    """For each partition: the ordinal of a split, and the place of its descriptors."""


def scan_locally(
    splits: Sequence[Split],
    ports: Sequence[int],
    shares: Partitioning,
    path: Path,
    spark_is_up: Callable[[], bool],
    seconds: float = STAGE_SECONDS,
    cores: int = 2,
    stop: ReadingStop | None = None,
) -> LocalScan:
    """Scan splits into a new file `path`, until Spark is ready and would be faster with the rest.

    Spark would need `seconds`, and share the rest among `cores`. The user may `stop` the scan after the first
    split. A split that cannot be read ends it: the job that reads it again reports why. Raise DiskFullError.
    """
    blobs: list[list[Blob]] = [[] for _ in range(shares.partitions)]
    left = sum(map(_usual_seconds, splits))
    began, passed, done = time.monotonic(), 0.0, 0
    ordinals = [pa.record_batch({"split": [split.index]}) for split in splits]
    scanned = tasks.scan_step(ordinals, splits, ports)
    with disk_full_explained(), parts_in(path) as writer:
        for split in splits:
            pace = (time.monotonic() - began) / passed if passed else 1
            if stop and done and stop.is_asked_for:
                break
            if spark_is_up() and left * pace * (1 - 1 / cores) > seconds:
                break
            try:
                pieces = next(scanned)
            except OSError:
                break
            parts = [
                (number, pieces_blob(rows))
                for number, rows in tasks.split_by_partition(pieces, shares.of_bucket)
            ]
            for number, blob in parts:
                blobs[number].append((split.index, writer.put(blob)))
            usual = _usual_seconds(split)
            done, passed, left = done + 1, passed + usual, left - usual
    pa.default_memory_pool().release_unused()
    return LocalScan(done, shares, tuple(map(tuple, blobs)))


def _usual_seconds(split: Split) -> float:
    """Return how long the scan of a split takes on a usual machine."""
    mean_bytes = (split.stop - split.start) / max(1, split.packets)
    return split.packets * (PACKET_SECONDS + min(mean_bytes, MOST_BYTES) * BYTE_SECONDS)
