"""Load of clients, added up against the rows of the tables."""

import numpy as np

from kdissect.report.partials import summarise
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import LOAD, READS
from kdissect.tables.schemas import ENDS
from tests.helpers import synthetic_tables as synthetic

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
