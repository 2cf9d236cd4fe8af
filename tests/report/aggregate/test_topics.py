"""Volumes, partitions and latencies of topics, for each client that names them."""

import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_tables import (
    TOPIC_CALLS,
    TOPIC_FLOWS,
    TOPIC_LATENCIES,
    TOPIC_PARTITIONS,
)
from kdissect.report.aggregate.topics import rows_of_exchanges
from tests.helpers.paper_capture import MS, partition
from tests.helpers.report_rows import FETCH, PRODUCE, exchange_of, many, rows_of, tables


def test_each_partition_finds_its_exchange_by_connection_and_ordinal():
    exchanges = [exchange_of(1, 0, PRODUCE, 0), exchange_of(2, 0, PRODUCE, 0), exchange_of(1, 1, PRODUCE, 1)]
    partitions = [partition(*at, 0, 0, 1, topic="t") for at in ((1, 1), (2, 0), (9, 0), (1, 0))]
    both = tables(exchanges, partitions)
    rows = rows_of_exchanges(TableColumns(both["partitions"]), TableColumns(both["exchanges"]))
    assert rows.tolist() == [2, 1, -1, 0]


def test_volumes_add_up_by_topic_client_api_and_codec():
    exchanges = [*many(2, PRODUCE, 1), exchange_of(2, 0, FETCH, 5)]
    partitions = [
        partition(1, 0, 0, 0, 10, topic="orders"),
        partition(1, 0, 0, 1, 5, topic="orders", error_code=6),
        partition(1, 1, 0, 0, 1, topic="orders", codec="lz4"),
        partition(2, 0, 1, 0, 7, topic="orders"),
    ]
    rows = rows_of(TOPIC_FLOWS, exchanges, partitions)
    columns = ("api_key", "client_id", "codec", "mentions", "errors", "records", "record_bytes")
    assert {tuple(row[name] for name in columns) for row in rows} == {
        (0, "client-1", "zstd", 2, 1, 15, 150),
        (0, "client-1", "lz4", 1, 0, 1, 10),
        (1, "client-2", "zstd", 1, 0, 7, 70),
    }


def test_a_partition_without_its_exchange_keeps_its_volume_without_a_client():
    (row,) = rows_of(TOPIC_FLOWS, [exchange_of(1, 0, PRODUCE, 0)], [partition(1, 8, 0, 0, 3, topic="orders")])
    assert (row["client_id"], row["connection"], row["records"], row["first_ns"]) == (None, 1, 3, None)
    assert rows_of(TOPIC_CALLS, [exchange_of(1, 0, PRODUCE, 0)], [partition(1, 8, 0, 0, 3, topic="t")]) == []


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3)])
def test_an_exchange_counts_once_for_each_topic_that_it_names(order):
    rows = [partition(1, 0, 0, at % 2, 1, topic=topic) for at, topic in enumerate(("a", "a", "b", "b"))]
    exchanges = [exchange_of(1, 0, PRODUCE, 0, 4 * MS)]
    calls = rows_of(TOPIC_CALLS, exchanges, [rows[at] for at in order])
    assert [(row["topic"], row["exchanges"], row["latency_ns"]) for row in calls] == [
        ("a", 1, 4 * MS),
        ("b", 1, 4 * MS),
    ]
    assert [row["count"] for row in rows_of(TOPIC_LATENCIES, exchanges, rows)] == [1, 1]


def test_names_and_ids_stay_apart_until_names_are_known():
    rows = [partition(1, 0, 0, 0, 1, topic="orders"), partition(1, 0, 0, 0, 1, topic_id="id-1")]
    seen = rows_of(TOPIC_PARTITIONS, [exchange_of(1, 0, PRODUCE, 0)], rows)
    assert [(row["topic"], row["topic_id"], row["partition"], row["mentions"]) for row in seen] == [
        ("orders", None, 0, 1),
        (None, "id-1", 0, 1),
    ]


def test_rows_without_a_topic_are_left_out():
    nameless = [partition(1, 0, 0, 0, 3)]
    for kind in (TOPIC_FLOWS, TOPIC_CALLS, TOPIC_PARTITIONS, TOPIC_LATENCIES):
        assert rows_of(kind, [exchange_of(1, 0, PRODUCE, 0)], nameless) == []
