"""The timeline against plain loops over rows, and by hand where figures can be worked out on paper."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from kdissect.report.partials import (
    ALL_TABLES,
    merge,
    summarise,
)
from kdissect.report.timeline.count import MOST_RECORDS
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import (
    PRODUCERS,
    SEQUENCES,
    TIMELINE_TABLES,
    TOPIC_ACTIVITY,
)
from kdissect.tables.schemas import ENDS
from tests.helpers import synthetic_tables as synthetic
from tests.helpers.paper_capture import MS, T, partition
from tests.helpers.report_rows import FETCH, PRODUCE, many, tables
from tests.report.timeline.conftest import SECONDS


def test_the_same_however_rows_are_dealt_out(counted):
    tables, whole, _ = counted
    rng = np.random.default_rng(5)
    dealt = synthetic.in_batches(rng, {name: table for name, table in tables.items() if name != "ends"}, 7)
    partials = [summarise(part | {"ends": tables["ends"]}, SECONDS) for part in dealt]
    rng.shuffle(partials)
    merged = merge([merge(partials[:3]), merge(partials[3:])])
    for name in TIMELINE_TABLES.keys() - {"group_steps", "transaction_steps"}:
        part = ALL_TABLES[name]
        order = [(column, "ascending") for column, _ in part.keys]
        assert merged.table(part).sort_by(order).equals(whole.table(part).sort_by(order)), name


def counted(kind, partitions, api=PRODUCE):
    both = tables(many(len(partitions), api, 10), partitions)
    both["ends"] = both["connections"].select(ENDS.names)
    return summarise(both, Grid(T, 100 * MS, 10)).table(kind).to_pylist()


def written(ordinal, records, producer=7, start=0, **more):
    ids = {"producer_id": producer, "producer_epoch": 0, "base_sequence": start, "topic": "orders"}
    return partition(1, ordinal, 0, 0, records, **ids | more)


def test_a_producer_has_its_client_volume_errors_and_times():
    (row,) = counted(PRODUCERS, [written(0, 10), written(1, 5, error_code=45)])
    assert (row["client_id"], row["client_host"], row["producer_id"]) == ("client-1", "10.1.0.1", 7)
    assert (row["exchanges"], row["batches"], row["records"], row["record_bytes"], row["errors"]) == (
        2,
        2,
        15,
        150,
        1,
    )
    assert (row["first_ns"], row["last_ns"]) == (T, T + 10 * MS)


def test_a_new_epoch_is_another_row():
    rows = counted(PRODUCERS, [written(0, 1), written(1, 1, producer_epoch=1)])
    assert sorted(row["producer_epoch"] for row in rows) == [0, 1]


def test_a_run_ends_behind_its_last_record_where_the_next_one_may_begin():
    rows = counted(SEQUENCES, [written(0, 10), written(1, 5, start=20), written(2, 5, start=10)])
    assert sorted((row["start"], row["stop"], row["records"]) for row in rows) == [(0, 15, 15), (20, 25, 5)]


@pytest.mark.parametrize(
    "more",
    [
        {"producer_id": None},
        {"producer_id": -1},
        {"base_sequence": -1},
        {"records": 0},
        {"records": MOST_RECORDS},
        {"partition": None},
        {"batches": None},
    ],
    ids=str,
)
def test_batches_without_a_sequence_have_no_run(more):
    assert counted(SEQUENCES, [written(0, 5) | more]) == []


def test_only_what_a_produce_request_wrote_counts():
    read = [written(0, 5) | {"api_key": 1}]
    assert counted(PRODUCERS, read, FETCH) == counted(SEQUENCES, read, FETCH) == []


def test_topic_moments(counted):
    tables, partial, rows = counted
    exchange = {(row["connection"], row["ordinal"]): row for row in rows if row["ordinal"] is not None}
    expected: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [set(), 0, 0, 0])
    for row in tables["partitions"].to_pylist():
        sender = exchange[row["connection"], row["ordinal"]]
        sums = expected[sender["step"], row["api_key"], row["topic"], row["topic_id"], sender["client_id"]]
        sums[0].add((row["connection"], row["ordinal"]))
        for at, amount in enumerate(
            (row["records"] or 0, row["record_bytes"] or 0, (row["error_code"] or 0) != 0), 1
        ):
            sums[at] += amount
    found = defaultdict(lambda: [0, 0, 0, 0])
    for row in partial.table(TOPIC_ACTIVITY).to_pylist():
        sums = found[row["step"], row["api_key"], row["topic"], row["topic_id"], row["client_id"]]
        for at, name in enumerate(("exchanges", "records", "record_bytes", "errors")):
            sums[at] += row[name]
    assert found == {key: [len(sums[0]), *sums[1:]] for key, sums in expected.items()}
