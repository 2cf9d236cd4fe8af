"""Who writes under which producer id, and the sequence numbers of their batches."""

import pytest

from kdissect.report.partials import summarise
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.producer_sequences import MOST_RECORDS
from kdissect.report.timeline.timeline_tables import PRODUCERS, SEQUENCES
from kdissect.tables.schemas import ENDS
from tests.helpers.paper_capture import MS, T, partition
from tests.helpers.report_rows import FETCH, PRODUCE, many, tables


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
