"""Rows of Kafka 0.7: parts of multi requests, message sets that are wrong, and what there is not."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from kdissect.protocol.kafka07.message_codec import RequestType
from kdissect.tables.build import dissect_batches
from tests.helpers.kafka07_messages import (
    SET,
    encode_kafka07_request,
    encode_kafka07_response,
    set_message,
)
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame

Rows = list[dict[str, Any]]


def fetch(topic: str, partition: int = 0) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "offset": 7, "max_size": 1000}


def produce(topic: str, messages: bytes = SET) -> dict[str, Any]:
    return {"topic": topic, "partition": 2, "messages": messages}


def request(kind: RequestType, body: dict[str, Any]) -> bytes:
    return frame(encode_kafka07_request(kind, body))


def response(kind: RequestType, body: dict[str, Any], error: int = 0) -> bytes:
    return frame(encode_kafka07_response(kind, error, body))


def rows_of(wire: Wire) -> tuple[Rows, Rows]:
    """Return the rows of `exchanges` and of `partitions` that a wire gives."""
    splits, pieces = wire.close().splits(1)
    rows: dict[str, Rows] = {"exchanges": [], "partitions": []}
    for batches in dissect_batches(pieces, splits):
        for name in rows.keys() & batches.keys():
            rows[name] += batches[name].to_pylist()
    return rows["exchanges"], rows["partitions"]


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    return Wire(tmp_path / "payload").open()


def test_parts_of_a_multi_request_have_the_key_of_the_single_one(wire: Wire) -> None:
    wire.send(CLIENT, request(RequestType.MULTI_PRODUCE, {"requests": [produce("orders"), produce("bills")]}))
    wire.send(CLIENT, request(RequestType.MULTI_FETCH, {"requests": [fetch("orders"), fetch("bills")]}))
    answers = [{"error_code": 0, "messages": SET}, {"error_code": 3, "messages": b""}]
    wire.send(SERVER, response(RequestType.MULTI_FETCH, {"responses": answers}))
    exchanges, partitions = rows_of(wire)
    assert [(row["api_key"], row["api_name"]) for row in exchanges] == [
        (3, "MultiProduce"),
        (2, "MultiFetch"),
    ]
    assert [(row["ordinal"], row["api_key"], row["topic"]) for row in partitions] == [
        (0, RequestType.PRODUCE, "orders"),
        (0, RequestType.PRODUCE, "bills"),
        (1, RequestType.FETCH, "orders"),
        (1, RequestType.FETCH, "bills"),
    ]
    assert [row["error_name"] for row in partitions] == [None, None, "NONE", "WRONG_PARTITION"]
    assert (exchanges[1]["error_code"], exchanges[1]["error_count"]) == (3, 1)


def test_what_0_7_does_not_have_is_null(wire: Wire) -> None:
    wire.send(CLIENT, request(RequestType.FETCH, fetch("orders")))
    wire.send(SERVER, response(RequestType.FETCH, {"messages": SET}))
    (row,), _ = rows_of(wire)
    assert [row[name] for name in ("api_version", "correlation_id", "client_id", "throttle_ms")] == [None] * 4
    assert (row["idle_wait"], row["in_flight"], row["fault"]) == (False, 1, None)


def test_a_partition_has_the_offset_asked_for_or_the_first_one_returned(wire: Wire) -> None:
    offsets = {"topic": "orders", "partition": 0, "time": -1, "max_number": 2}
    wire.send(CLIENT, request(RequestType.OFFSETS, offsets))
    wire.send(SERVER, response(RequestType.OFFSETS, {"offsets": [9000, 0]}))
    wire.send(CLIENT, request(RequestType.OFFSETS, offsets))
    wire.send(SERVER, response(RequestType.OFFSETS, {"offsets": []}))
    _, partitions = rows_of(wire)
    assert [(row["offset"], row["records"]) for row in partitions] == [(9000, None), (None, None)]


def test_the_first_message_set_that_is_wrong_is_the_fault_of_the_exchange(wire: Wire) -> None:
    broken = set_message(b"not gzip", 1)
    bodies = [produce("orders"), produce("bills", SET + broken)]
    wire.send(CLIENT, request(RequestType.MULTI_PRODUCE, {"requests": bodies}))
    (row,), partitions = rows_of(wire)
    assert row["fault"].startswith("request: ")
    assert row["fault"].endswith("of the messages of partition 2")
    assert partitions[0]["records"] == 2


def test_records_inside_compressed_messages_are_counted(wire: Wire) -> None:
    wire.send(CLIENT, request(RequestType.PRODUCE, produce("orders", set_message(gzip.compress(SET), 1))))
    _, (row,) = rows_of(wire)
    assert (row["records"], row["batches"], row["codec"]) == (2, 1, "gzip")


def test_bytes_that_the_capture_lost_are_no_fault(wire: Wire) -> None:
    data = request(RequestType.PRODUCE, produce("orders", SET * 20))
    wire.send(CLIENT, data[:-30], missing=30)
    (row,), (partition,) = rows_of(wire)
    assert row["fault"] is None
    assert (partition["topic"], partition["partition"]) == ("orders", 2)
