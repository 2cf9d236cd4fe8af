"""Which latencies count, and as how much."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.histogram import bucket_of
from kdissect.report.aggregate.sound_latency import (
    MAX_LATENCY_NS,
    counted_latencies,
    latency_buckets,
    sound_latencies,
)


@pytest.mark.parametrize(
    ("latency", "sound"), [(0, True), (-1, False), (None, False), (MAX_LATENCY_NS, False)]
)
def test_a_sound_latency_is_neither_negative_nor_of_days(latency, sound):
    columns = {"latency_ns": pa.array([latency], pa.int64()), "wait_ns": pa.array([0]), "idle_wait": [False]}
    assert sound_latencies(TableColumns(pa.table(columns)))[1].tolist() == [sound]


def test_of_a_long_poll_that_was_late_the_time_beyond_its_wait_counts():
    columns = {"latency_ns": [8186, 400], "wait_ns": [500, 400], "idle_wait": [False, True]}
    assert sound_latencies(TableColumns(pa.table(columns)))[0].tolist() == [7686, 400]


def test_latencies_are_counted_once_for_all_figures():
    rows = [(5_000_000, 0, False), (-1, 0, False), (None, 0, False), (MAX_LATENCY_NS, 0, False)]
    rows += [(900, 400, False), (900, 400, True), (100, 400, False)]
    names = ("latency_ns", "wait_ns", "idle_wait")
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
    exchanges = TableColumns(table)
    expected = [5_000_000, 0, 0, 0, 500, 900, -300]
    assert counted_latencies(exchanges).tolist() == expected
    assert latency_buckets(exchanges).tolist() == [bucket_of(np.array([value]))[0] for value in expected]
    assert latency_buckets(exchanges) is latency_buckets(exchanges)
