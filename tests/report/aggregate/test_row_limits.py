"""Tables of a partial stay small and keep every sum."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.partial_rows import join_rows, roll_up
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.timeline.timeline_tables import (
    SEQUENCES,
)
from kdissect.tables.column import INT64, TEXT

TALLY = PartialTable(
    "tally",
    keys=(("who", TEXT), ("step", INT64)),
    sums=("exchanges",),
    most=100,
    spare=(("who",),),
)


def test_bounds_keep_the_heaviest_and_every_sum():
    who = [f"client-{number}" for number in range(60) for _ in range(5)]
    weights = [1000 - number for number in range(60) for _ in range(5)]
    table = pa.table({"who": who, "step": list(range(5)) * 60, "exchanges": weights}, schema=TALLY.schema)
    kept = limit_rows(TALLY, table)
    assert kept.num_rows == 55
    assert sum(kept["exchanges"].to_pylist()) == sum(weights)
    assert set(kept["who"].to_pylist()) == {f"client-{number}" for number in range(10)} | {None}
    assert limit_rows(TALLY, kept) is kept


def test_early_events_stay_and_late_ones_are_counted():
    part = PartialTable(
        "events", keys=(("time_ns", INT64), ("what", TEXT)), sums=("events",), most=10, earliest="time_ns"
    )
    table = pa.table(
        {"time_ns": list(range(50, 0, -1)), "what": ["x"] * 50, "events": [1] * 50}, schema=part.schema
    )
    kept = limit_rows(part, table).to_pylist()
    assert sorted(row["time_ns"] for row in kept if row["time_ns"] is not None) == [1, 2, 3, 4, 5]
    assert sum(row["events"] for row in kept) == 50


SPANS = PartialTable(
    "spans",
    keys=(("who", INT64), ("begin", INT64), ("end", INT64)),
    sums=("exchanges",),
    most=60,
    spare=(("who",), ("begin", "end")),
    longest=("begin", "end"),
)


def random_spans(rng: np.random.Generator, count: int) -> pa.Table:
    """Return spans of up to two steps that begin in one of six; each twentieth has no end."""
    begin = rng.integers(0, 6, count)
    end = [None if at % 20 == 0 else int(row) for at, row in enumerate(begin + rng.integers(0, 3, count))]
    columns = {"who": rng.integers(0, 50, count), "begin": begin, "end": end, "exchanges": [1] * count}
    return pa.table(columns, schema=SPANS.schema)


def summed_up(part: PartialTable, rows: pa.Table, edges: list[int]) -> list[dict]:
    """Return what is left of rows that come in these parts, each of which is limited."""
    left = limit_rows(part, roll_up(part, rows.slice(0, 0)))
    for start, stop in zip([0, *edges], [*edges, rows.num_rows], strict=True):
        own = limit_rows(part, roll_up(part, rows.slice(start, stop - start)))
        left = limit_rows(part, roll_up(part, join_rows(part, [left, own])))
    return sorted(left.to_pylist(), key=str)


@pytest.mark.parametrize("seed", range(10))
def test_longest_spans_stay_the_same_however_rows_are_dealt_out(seed):
    rng = np.random.default_rng(seed)
    rows = random_spans(rng, 40 if seed == 9 else 400)
    at_once = summed_up(SPANS, rows, [])
    edges = sorted(rng.integers(0, rows.num_rows, 5).tolist())
    shuffled = rows.take(pa.array(rng.permutation(rows.num_rows)))
    assert summed_up(SPANS, shuffled, edges) == at_once
    assert sum(row["exchanges"] for row in at_once) == rows.num_rows
    named = [row for row in at_once if row["who"] is not None]
    assert len(named) == (30 if seed < 9 else len(at_once))
    endless = {(row["who"], row["begin"]) for row in rows.to_pylist() if row["end"] is None}
    assert endless <= {(row["who"], row["begin"]) for row in named if row["end"] is None}
    steps = {(row["begin"], row["end"]) for row in at_once}
    assert steps == {(row["begin"], row["end"]) for row in rows.to_pylist()}


def test_earliest_rows_stay_the_same_however_rows_are_dealt_out():
    rng = np.random.default_rng(7)
    part = PartialTable(
        "events", keys=(("time_ns", INT64), ("what", TEXT)), sums=("events",), most=20, earliest="time_ns"
    )
    what = [f"kind {kind}" for kind in rng.integers(0, 3, 200)]
    rows = pa.table(
        {"time_ns": rng.integers(0, 100, 200), "what": what, "events": [1] * 200}, schema=part.schema
    )
    at_once = summed_up(part, rows, [])
    assert len(at_once) == 11
    assert summed_up(part, rows.take(pa.array(rng.permutation(200))), [7, 30, 31, 150]) == at_once


def runs(*ranges, producer=7):
    """Return SEQUENCES of one partition from (start, stop)."""
    rows = [
        {
            "producer_id": producer,
            "producer_epoch": 0,
            "topic": "orders",
            "topic_id": None,
            "partition": 0,
            "start": start,
            "batches": 1,
            "records": stop - start,
            "stop": stop,
            "order_ns": at,
            "capture_file": "a",
            "request_packet": at,
            "response_packet": None,
        }
        for at, (start, stop) in enumerate(ranges, 1)
    ]
    return roll_up(SEQUENCES, pa.Table.from_pylist(rows, SEQUENCES.schema))


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 5), (5, 9), (9, 20)], [(0, 20, 3)]),
        ([(9, 20), (0, 5), (5, 9)], [(0, 20, 3)]),  # out of order on the wire
        ([(0, 5), (7, 9)], [(0, 5, 1), (7, 9, 1)]),  # 5 and 6 never came
        ([(0, 5), (0, 5), (5, 6)], [(0, 6, 3)]),  # sent again
        ([(0, 10), (2, 4), (12, 13)], [(0, 10, 2), (12, 13, 1)]),
    ],
)
def test_runs_of_sequence_numbers(ranges, expected):
    joined = limit_rows(SEQUENCES, runs(*ranges))
    found = sorted((row["start"], row["stop"], row["batches"]) for row in joined.to_pylist())
    assert found == expected


def test_runs_of_producers_stay_apart():
    both = join_rows(SEQUENCES, [runs((0, 5), producer=1), runs((5, 9), producer=2)])
    assert limit_rows(SEQUENCES, both).num_rows == 2
