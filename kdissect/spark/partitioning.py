"""How connections are shared out among the partitions of pass two.

All pieces of a connection must meet, and a partition is one task, so the buckets that pass one sorts connections into are
dealt out whole: the heaviest first, each to the partition that has least. A connection that carries most of a capture gets
a partition for itself that way, and the others do not wait behind it. Which partition it is changes no result.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.capture.flow_table import BUCKETS
from kdissect.capture.index.sampling import Sample

PARTITION_BYTES = 4 << 30
"""Capture bytes for one partition. Each reads through most of the capture where its packets lie close together, so few
are better; what a task holds in memory does not grow with it (see `blobs`)."""
PARTITION_CONNECTIONS = 5_000  # as estimated; what a task remembers of each takes more than 10 kB in all
MOST_PARTITIONS = 4096
TASKS_A_CORE = 2  # of pass one: each costs near a tenth of a second; cores should end together
MOST_SPLITS = 64  # in one task of pass one


class Partitioning(NamedTuple):
    """The partition of every bucket."""

    partitions: int
    of_bucket: NDArray[np.int16]


def partitions_for(sample: Sample, cores: int) -> int:
    """Give the number of partitions of pass two: a multiple of `cores`, as long as there is more than one bucket in use."""
    needed = max(-(-sample.bytes // PARTITION_BYTES), -(-sample.connections // PARTITION_CONNECTIONS))
    return min(-(-max(1, needed) // cores) * cores, max(cores, MOST_PARTITIONS))


def partition_buckets(sample: Sample, partitions: int) -> Partitioning:
    """Deal the buckets out; those that the sample did not meet in turn."""
    of_bucket = (np.arange(BUCKETS) % partitions).astype(np.int16)
    seen = np.flatnonzero(sample.segments)
    heaviest_first = seen[np.argsort(-sample.segments[seen], kind="stable")]
    least = [(0, partition) for partition in range(partitions)]
    for bucket in heaviest_first.tolist():
        load, partition = least[0]
        of_bucket[bucket] = partition
        heapq.heapreplace(least, (load + int(sample.segments[bucket]), partition))
    return Partitioning(partitions, of_bucket)


def tasks_for(splits: int, cores: int) -> int:
    """Give how many tasks scan that many splits.

    A task costs Spark and its worker near a tenth of a second, as much as it takes to scan a gigabyte of large packets; but one
    that holds many splits loses them all with its executor, and leaves cores idle at the end.
    """
    return min(splits, max(cores * TASKS_A_CORE, -(-splits // MOST_SPLITS)))
