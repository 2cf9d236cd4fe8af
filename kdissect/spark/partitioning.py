"""How connections are divided among the partitions of pass two.

All segments of a connection must meet, and a partition is one task. Pass one sorts connections into buckets,
and whole buckets are assigned to partitions: the heaviest first, each to the partition with the least so far.
So a connection that carries most of a capture gets a partition of its own, and others do not wait for it. The
assignment changes no result.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.capture.flow_pieces import BUCKETS
from kdissect.capture.index.sampling import Sample

PARTITION_BYTES = 4 << 30
"""Capture bytes for one partition.

Each partition reads most of the capture, so few are better. The memory of a task does
not grow with it (see `arrow_ipc`)."""
PARTITION_CONNECTIONS = 9_000
"""Connections of one partition, by estimate.

A capture of 100,000 short ones, 84,000 by estimate, took 7.0 s and 862 MiB at the peak of all processes in 10
tasks. It took 0.2 s more in 12, and 0.2 s less and 70 MiB more in 8."""

MOST_PARTITIONS = 4096
LITTLE_BYTES, LITTLE_CONNECTIONS = 16 << 20, 500
"""The most that one task dissects as soon as two do.

The half of 1 MB takes a task as long as all of it, 0.1 s, and figures of two tasks must be added up. 15 MB of
small messages took 3.05 s in two tasks and 2.87 in one, with 4.5 and 4.0 s of processor time. 30 MB took as
long in either.
"""
LONELY_BYTES = 32 << 20  # of captures: the work on fewer takes less time than another process
LONELY_PACKET = 4 << 10  # bytes of a packet on average: to hand over large messages costs what it saves
LONELY = 1.4  # times a core's share of all packets: such a partition goes on for long when others are done
TASKS_A_CORE = 2  # in pass one: a task costs about 0.1 s, and all cores should end together
MOST_SPLITS = 64  # splits in one task of pass one


class Partitioning(NamedTuple):
    """The number of partitions, and the partition of every bucket."""

    partitions: int
    of_bucket: NDArray[np.int16]


def partitions_for(sample: Sample, cores: int) -> int:
    """Return the number of partitions of pass two: 1, or a multiple of `cores`."""
    if 0 < sample.bytes <= LITTLE_BYTES and sample.connections <= LITTLE_CONNECTIONS:
        return 1
    needed = max(-(-sample.bytes // PARTITION_BYTES), -(-sample.connections // PARTITION_CONNECTIONS))
    return min(-(-max(1, needed) // cores) * cores, max(cores, MOST_PARTITIONS))


def shares_of(sample: Sample, cores: int, partitions: int = 0) -> Partitioning:
    """Return how connections are partitioned; without a number of `partitions`, sample and cores give it."""
    return partition_buckets(sample, partitions or partitions_for(sample, cores))


def partition_buckets(sample: Sample, partitions: int) -> Partitioning:
    """Return the partition of each bucket. Buckets that the sample did not meet are assigned in turn."""
    of_bucket = (np.arange(BUCKETS) % partitions).astype(np.int16)
    seen = np.flatnonzero(sample.segments)
    heaviest_first = seen[np.argsort(-sample.segments[seen], kind="stable")]
    least = [(0, partition) for partition in range(partitions)]
    for bucket in heaviest_first.tolist():
        load, partition = least[0]
        of_bucket[bucket] = partition
        heapq.heapreplace(least, (load + int(sample.segments[bucket]), partition))
    return Partitioning(partitions, of_bucket)


def is_lonely(sample: Sample, shares: Partitioning, cores: int, packet_bytes: int) -> bool:
    """Return whether one partition has so much of the captures that other cores wait for it in the end.

    That is so, too, for a few connections on many cores. `packet_bytes` is the mean of all packets: a task
    with large ones, or with little to do, gains nothing by another process.
    """
    if shares.partitions == 1 or sample.bytes < LONELY_BYTES or packet_bytes > LONELY_PACKET:
        return False
    loads = np.bincount(shares.of_bucket, weights=sample.segments, minlength=shares.partitions)
    return bool(loads.max() * cores > LONELY * loads.sum())


def tasks_for(splits: int, cores: int) -> int:
    """Return how many tasks scan a number of splits.

    A task costs Spark and its worker about 0.1 s, as much as scanning a gigabyte of large packets. A task
    with many splits loses all of them with its executor, and leaves other cores idle at the end.
    """
    return min(splits, max(cores * TASKS_A_CORE, -(-splits // MOST_SPLITS)))
