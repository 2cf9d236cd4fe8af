"""Latencies of exchanges as figures count them, and their buckets."""

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.histogram import bucket_of

MAX_LATENCY_NS = 1 << 48
"""Longer latencies (three days) are faults of the clock; 32,768 of this length add up within int64."""


def sound_latencies(exchanges: TableColumns) -> tuple[Int64s, Bools]:
    """Return latencies in ns and the mask of sound ones: present, not negative, below `MAX_LATENCY_NS`.

    The latency of an exchange that waited by design and was answered late is the time beyond that wait.
    """
    latency, sound = exchanges.derived("sound_latencies", make=lambda: _sound_latencies(exchanges))
    return latency, sound


def _sound_latencies(exchanges: TableColumns) -> tuple[Int64s, Bools]:
    latency = exchanges.ints("latency_ns")
    sound = exchanges.present("latency_ns") & (latency >= 0) & (latency < MAX_LATENCY_NS)
    return latency - exchanges.ints("wait_ns") * ~exchanges.bools("idle_wait"), sound


def counted_latencies(exchanges: TableColumns) -> Int64s:
    """Return sound latencies in ns, 0 for others."""
    latency, sound = sound_latencies(exchanges)
    return exchanges.derived("counted_latencies", make=lambda: (latency * sound,))[0]


def latency_buckets(exchanges: TableColumns) -> Int64s:
    """Return the bucket of each sound latency, that of 0 for others."""
    return exchanges.derived("buckets", make=lambda: (bucket_of(counted_latencies(exchanges)),))[0]
