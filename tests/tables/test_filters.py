"""Meaning of a filter for one value, and which rows of the tables it keeps."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from kdissect.tables.array_batch import array_batch
from kdissect.tables.coded_text import CodedText
from kdissect.tables.filters import (
    ANY_ERROR,
    NO_NAMES,
    BatchFilter,
    CaptureNames,
    Filter,
    TableBatches,
    current_api_keys,
    in_window,
    mask_of,
    matches,
    matches_broker,
    matches_error,
)
from kdissect.tables.schemas import CONNECTIONS, ENDS, EXCHANGES, GROUP_EVENTS, PARTITIONS

NODES = {
    1: frozenset({("kafka-1", 9092)}),
    2: frozenset({("kafka-2", 9093)}),
    3: frozenset({("kafka-3", 9093)}),
}


def test_names_match_as_in_a_shell() -> None:
    assert matches("orders-7", ["clicks", "orders-?"])
    assert matches("Orders", ["[A-Z]*"])
    assert not matches("orders-77", ["orders-?"])
    assert not matches(None, ["*"])


@pytest.mark.parametrize(
    ("host", "port", "broker", "expected"),
    [
        ("10.0.0.1", 9092, "10.0.0.1", True),
        ("10.0.0.1", 9092, "10.0.0.1:9092", True),
        ("10.0.0.1", 9092, "10.0.0.?:9092", True),
        ("10.0.0.1", 9092, "10.0.0.1:9093", False),
        ("::1", 9092, "[::1]:9092", True),
        ("10.0.0.1", 9092, "1", True),  # the port is that of node 1 alone
        ("10.0.0.1", 9093, "2", False),  # two nodes have it
        ("kafka-2", 9093, "2", True),
        ("10.0.0.1", 9092, "2", False),
        ("10.0.0.1", 9092, "7", False),
        ("10.0.0.1", 9092, "9" * 5_000, False),
        (None, 9092, "*", False),
    ],
)
def test_a_broker_is_a_host_an_address_or_a_node(
    host: str | None, port: int, broker: str, expected: bool
) -> None:
    assert matches_broker(host, port, [broker], NODES) is expected


def test_an_error_is_a_code_or_any_but_0() -> None:
    assert matches_error(6, frozenset({6, 74}))
    assert not matches_error(16, frozenset({6, 74}))
    assert matches_error(16, frozenset({ANY_ERROR}))
    assert not matches_error(0, frozenset({ANY_ERROR}))
    assert matches_error(0, frozenset({0}))
    assert not matches_error(None, frozenset({ANY_ERROR, 0}))


def test_a_window_has_its_first_moment_and_not_its_last() -> None:
    times = np.array([9, 10, 19, 20])
    assert in_window(times, times, Filter(since_ns=10, until_ns=20)).tolist() == [False, True, True, False]
    assert in_window(times, times, Filter()).all()
    assert in_window(np.array([0]), np.array([10]), Filter(since_ns=10)).all()


def test_requests_of_kafka_0_7_go_by_the_api_of_today() -> None:
    keys = np.array([0, 1, 2, 3, 4, 3, -1, 99])
    old = np.array([True, True, True, True, True, False, True, True])
    assert current_api_keys(keys, old).tolist() == [0, 1, 1, 0, 2, 3, -1, 99]


def batch(schema: pa.Schema, *rows: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def tables() -> dict[str, pa.RecordBatch]:
    """Return connection 7 to 10.0.0.1 with a Fetch and a Produce, and 8 to 10.0.0.2 with a join."""
    exchanges = (
        {"connection": 7, "ordinal": 0, "api_key": 1, "api_version": 12, "client_id": "reader"},
        {"connection": 7, "ordinal": 1, "api_key": 0, "api_version": 9, "client_id": "writer"},
        {"connection": 8, "ordinal": 0, "api_key": 11, "api_version": 5, "group_id": "payments"},
        {"connection": 8, "error_code": 0},  # a response without request
    )
    times = (
        {"request_first_ns": 10},
        {"request_first_ns": 20},
        {"request_first_ns": 30},
        {"response_first_ns": 5},
    )
    return {
        "exchanges": batch(EXCHANGES, *(row | time for row, time in zip(exchanges, times, strict=True))),
        "partitions": batch(
            PARTITIONS,
            {"connection": 7, "ordinal": 0, "topic_id": "AAAAAAAAAAAAAAAAAAAABQ", "error_code": 0},
            {"connection": 7, "ordinal": 1, "topic": "clicks", "error_code": 6},
        ),
        "group_events": batch(GROUP_EVENTS, {"connection": 8, "ordinal": 0, "event": "join"}),
        "ends": batch(
            ENDS,
            {"connection": 7, "server_host": "10.0.0.1", "server_port": 9092},
            {"connection": 8, "server_host": "10.0.0.2", "server_port": 9092},
        ),
    }


def as_arrays(given: TableBatches) -> TableBatches:
    """Return the tables as workers have them for figures."""
    arrays = {name: array_batch(given[name], given[name].schema) for name in ("exchanges", "partitions")}
    return {**given, **arrays}


CONNECTION_ROWS = [
    {"connection": 7, "server_host": "10.0.0.1", "server_port": 9092, "requests": 2, "orphan_responses": 0},
    {"connection": 8, "server_host": "10.0.0.2", "server_port": 9092, "requests": 1, "orphan_responses": 1},
    {"connection": 9, "server_host": "10.0.0.2", "server_port": 9092, "requests": 0, "orphan_responses": 0},
]
TIMES = {"first_time_ns": 5, "last_time_ns": 40}
NAMES = CaptureNames({"AAAAAAAAAAAAAAAAAAAABQ": "orders"}, {})


@pytest.mark.parametrize(
    ("wanted", "exchanges", "connections"),
    [
        (Filter(), [(7, 0), (7, 1), (8, 0), (8, None)], [7, 8, 9]),
        (Filter(apis=frozenset({0, 11})), [(7, 1), (8, 0)], [7, 8]),
        (Filter(clients=("read*",)), [(7, 0)], [7]),
        (Filter(topics=("orders",)), [(7, 0)], [7]),
        (Filter(topics=("nothing", "clicks")), [(7, 1)], [7]),
        (Filter(groups=("pay*",)), [(8, 0)], [8]),
        (Filter(brokers=("10.0.0.2",)), [(8, 0), (8, None)], [8, 9]),
        (Filter(errors=frozenset({ANY_ERROR})), [(7, 1)], [7]),
        (Filter(errors=frozenset({0})), [(7, 0), (8, None)], [7, 8]),
        (Filter(since_ns=20), [(7, 1), (8, 0)], [7, 8, 9]),
        (Filter(until_ns=20), [(7, 0), (8, None)], [7, 8, 9]),
        (Filter(apis=frozenset({1}), topics=("clicks",)), [], []),
    ],
)
@pytest.mark.parametrize("as_given", [dict, as_arrays])
def test_the_tables_keep_what_is_selected(
    wanted: Filter,
    exchanges: list[tuple[int, int | None]],
    connections: list[int],
    as_given: Callable[[TableBatches], TableBatches],
) -> None:
    batch_filter = BatchFilter(wanted, NAMES)
    kept = batch_filter.select(as_given(tables()))
    assert [(row["connection"], row["ordinal"]) for row in kept["exchanges"].to_pylist()] == exchanges
    for name in ("partitions", "group_events"):
        everything = [(row["connection"], row["ordinal"]) for row in tables()[name].to_pylist()]
        rows = [(row["connection"], row["ordinal"]) for row in kept[name].to_pylist()]
        assert rows == [key for key in everything if key in exchanges]
    last = {"connections": batch(CONNECTIONS, *(row | TIMES for row in CONNECTION_ROWS))}
    assert batch_filter.select(last)["connections"]["connection"].to_pylist() == connections


def test_texts_of_no_row_are_not_looked_at() -> None:
    """Batches share their texts, which may be many more than one of them has rows."""
    given = tables()
    partitions = array_batch(given["partitions"], PARTITIONS)
    partitions.parts["topic"] = [CodedText(np.array([-1, 1]), pa.array(["orders", "clicks"]))]
    kept = BatchFilter(Filter(topics=("*",)), NO_NAMES).select({**given, "partitions": partitions})
    assert [row["api_key"] for row in kept["exchanges"].to_pylist()] == [0]
    asked: list[str] = []
    mask_of(partitions, "topic", lambda name: bool(asked.append(name)))
    assert asked == ["clicks"]


def test_names_are_needed_for_topics_and_nodes() -> None:
    assert Filter(topics=("orders",)).needs_names
    assert Filter(brokers=("10.0.0.1", "2")).needs_names
    assert not Filter(brokers=("10.0.0.1",), clients=("a",)).needs_names
    assert Filter().selects_everything
    assert not Filter(until_ns=0).selects_everything
