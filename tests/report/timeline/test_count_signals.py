"""The tables of signals against plain loops over random rows, and dealt out in any way."""

import numpy as np

from kdissect.report.partials import ALL_TABLES, merge, summarise
from kdissect.report.timeline.count_signals import LONG_WAIT_NS
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import LOAD, PACE, READS, REPLIES, SIGNAL_TABLES, WAITS
from kdissect.tables.schemas import ENDS
from tests.helpers import synthetic_tables as synthetic

STEPS = Grid(synthetic.START_NS, 1_000_000, 500)


def test_the_same_however_rows_are_dealt_out():
    whole = synthetic.tables(np.random.default_rng(1), 2000)
    ends = {"ends": whole["connections"].select(ENDS.names)}
    once = summarise(whole | ends, None, STEPS)
    dealt = synthetic.in_batches(np.random.default_rng(2), whole, 5)
    merged = merge(summarise(part | ends, None, STEPS) for part in reversed(dealt))
    for name, part in SIGNAL_TABLES.items():
        order = [(column, "ascending") for column, _ in part.keys]
        assert merged.table(part).sort_by(order).equals(once.table(ALL_TABLES[name]).sort_by(order)), name


def test_counts_and_times_are_those_of_the_rows():
    tables = synthetic.tables(np.random.default_rng(3), 1500)
    rows = tables["exchanges"].to_pylist()
    partial = summarise(tables | {"ends": tables["connections"].select(ENDS.names)}, None, STEPS)
    pace, replies, waits = (partial.table(part).to_pylist() for part in (PACE, REPLIES, WAITS))
    answered = [row["response_first_ns"] for row in rows if row["response_first_ns"] is not None]
    assert sum(row["exchanges"] for row in pace) == len(rows)
    assert sum(row["responses"] for row in replies) == len(answered)
    assert min(row["first_ns"] for row in replies) == min(answered)
    unanswered = sum(row["status"] == "unanswered" for row in rows)
    assert sum(row["exchanges"] for row in waits if row["last_end_ns"] is None) == unanswered
    long = [
        row
        for row in rows
        if not row["idle_wait"]
        and row["latency_ns"] is not None
        and LONG_WAIT_NS <= row["latency_ns"] < 1 << 48
    ]
    assert sum(row["wait_ns"] for row in waits) == sum(
        row["latency_ns"] for row in long if row["status"] != "unanswered"
    )


SECONDS = Grid(synthetic.START_NS, 5_000_000, 100)


def test_batches_records_and_bytes_are_those_of_the_rows():
    tables = synthetic.tables(np.random.default_rng(5), 1500)
    tables = tables | {"ends": tables["connections"].select(ENDS.names)}
    partial = summarise(tables, None, SECONDS)
    rows = [row for row in tables["partitions"].to_pylist() if row["api_key"] in (0, 1) and row["batches"]]
    load = partial.table(LOAD).to_pylist()
    for name in ("batches", "records", "record_bytes"):
        assert sum(row[name] for row in load) == sum(max(row[name] or 0, 0) for row in rows)
    assert sum(row["exchanges"] for row in load) == len(rows) > 0


def test_fetches_from_one_offset_are_one_row():
    tables = synthetic.tables(np.random.default_rng(5), 1500)
    tables = tables | {"ends": tables["connections"].select(ENDS.names)}
    reads = summarise(tables, None, SECONDS).table(READS).to_pylist()
    keys = [tuple(row[name] for name, _ in READS.keys) for row in reads]
    assert len(keys) == len(set(keys))
    assert all(row["first_ns"] <= row["last_ns"] for row in reads)
