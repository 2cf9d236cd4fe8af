"""Kafka 0.7 on a made-up wire.

Recognised by its structure, paired by order, and in the tables as all else is.
"""

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.protocol.kafka07.message_codec import RequestType
from kdissect.protocol.schema.registry import APIS
from kdissect.tables.build import dissect_batches
from tests.helpers.kafka07_messages import encode_kafka07_request, encode_kafka07_response
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame, request, response

CAPTURES = Path(__file__).parent.parent.parent / "captures"

Row = dict[str, Any]


def message(payload: bytes, codec: int = 0) -> bytes:
    body = bytes([1, codec]) + struct.pack(">I", zlib.crc32(payload)) + payload
    return struct.pack(">i", len(body)) + body


SET = message(b"one") + message(b"two")
ZIPPED = message(gzip.compress(SET), 1)


def produce(messages: bytes = SET, topic: str = "orders", partition: int = 0) -> bytes:
    body = {"topic": topic, "partition": partition, "messages": messages}
    return frame(encode_kafka07_request(RequestType.PRODUCE, body))


def part(offset: int = 0, topic: str = "orders") -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "offset": offset, "max_size": 1 << 20}


def fetch(offset: int = 0, topic: str = "orders") -> bytes:
    return frame(encode_kafka07_request(RequestType.FETCH, part(offset, topic)))


def fetched(messages: bytes = SET, error: int = 0) -> bytes:
    return frame(encode_kafka07_response(RequestType.FETCH, error, {"messages": messages}))


MULTI_FETCH = frame(
    encode_kafka07_request(RequestType.MULTI_FETCH, {"requests": [part(7), part(8, "bills")]})
)
MULTI_FETCHED = frame(
    encode_kafka07_response(
        RequestType.MULTI_FETCH,
        0,
        {"responses": [{"error_code": 0, "messages": ZIPPED}, {"error_code": 3, "messages": b""}]},
    )
)
MULTI_PRODUCE = frame(
    encode_kafka07_request(
        RequestType.MULTI_PRODUCE,
        {"requests": [{"topic": name, "partition": 2, "messages": SET} for name in ("orders", "bills")]},
    )
)
OFFSETS = frame(
    encode_kafka07_request(
        RequestType.OFFSETS, {"topic": "orders", "partition": 0, "time": -1, "max_number": 1}
    )
)
OFFSETS_TOLD = frame(encode_kafka07_response(RequestType.OFFSETS, 0, {"offsets": [9000]}))


def tables(wire: Wire, splits: int = 1) -> dict[str, list[Row]]:
    made, pieces = wire.splits(splits)
    found: dict[str, list[Row]] = {"connections": [], "exchanges": [], "partitions": []}
    for batches in dissect_batches(pieces, made):
        for name in found:
            found[name] += batches[name].to_pylist() if name in batches else []
    found["exchanges"].sort(key=lambda row: row["request_first_ns"] or row["response_first_ns"])
    found["partitions"].sort(key=lambda row: (row["ordinal"], row["topic"]))
    return found


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    return Wire(tmp_path / "payload")


def session(wire: Wire) -> Wire:
    wire.open().send(CLIENT, produce()).send(CLIENT, MULTI_PRODUCE)
    wire.send(CLIENT, fetch(5)).send(SERVER, fetched())
    wire.send(CLIENT, MULTI_FETCH).send(SERVER, MULTI_FETCHED)
    wire.send(CLIENT, OFFSETS).send(SERVER, OFFSETS_TOLD)
    return wire.send(CLIENT, fetch(1 << 40)).send(SERVER, fetched(b"", 1)).close()


def test_exchanges(wire: Wire) -> None:
    found = tables(session(wire))
    columns = ("api_key", "api_name", "status", "error_name", "error_count", "in_flight")
    assert [tuple(row[name] for name in columns) for row in found["exchanges"]] == [
        (0, "Produce", "no_response_expected", None, None, 1),
        (3, "MultiProduce", "no_response_expected", None, None, 1),
        (1, "Fetch", "answered", "NONE", 0, 1),
        (2, "MultiFetch", "answered", "WRONG_PARTITION", 1, 1),
        (4, "Offsets", "answered", "NONE", 0, 1),
        (1, "Fetch", "answered", "OFFSET_OUT_OF_RANGE", 1, 1),
    ]
    for row in found["exchanges"]:
        assert (row["api_version"], row["correlation_id"], row["client_id"]) == (None, None, None)
        assert (row["fault"], row["idle_wait"]) == (None, False)
    assert [row["latency_ns"] for row in found["exchanges"]] == [None, None] + [1_000_000] * 4
    (connection,) = found["connections"]
    expected = {
        "protocol": "kafka-0.7",
        "requests": 6,
        "responses": 4,
        "unanswered": 0,
        "orphan_responses": 0,
        "faults": 0,
        "skipped_bytes": 0,
        "client_host": "127.0.0.1",
        "client_port": 1000,
    }
    assert {name: connection[name] for name in expected} == expected


def test_partitions(wire: Wire) -> None:
    columns = (
        "ordinal",
        "api_key",
        "topic",
        "partition",
        "error_name",
        "records",
        "batches",
        "record_bytes",
        "codec",
        "offset",
    )
    size = len(SET)
    assert [tuple(row[name] for name in columns) for row in tables(session(wire))["partitions"]] == [
        (0, 0, "orders", 0, None, 2, 2, size, "none", None),
        (1, 0, "bills", 2, None, 2, 2, size, "none", None),
        (1, 0, "orders", 2, None, 2, 2, size, "none", None),
        (2, 1, "orders", 0, "NONE", 2, 2, size, "none", 5),
        (3, 1, "bills", 0, "WRONG_PARTITION", 0, 0, 0, None, 8),
        (3, 1, "orders", 0, "NONE", 2, 1, len(ZIPPED), "gzip", 7),
        (4, 4, "orders", 0, "NONE", None, None, None, None, 9000),
        (5, 1, "orders", 0, "OFFSET_OUT_OF_RANGE", 0, 0, 0, None, 1 << 40),
    ]


@pytest.mark.parametrize("splits", [2, 3, 7])
def test_the_outcome_does_not_depend_on_the_splits(wire: Wire, tmp_path: Path, splits: int) -> None:
    (tmp_path / "one").mkdir()
    whole = session(Wire(tmp_path / "one" / "payload"))
    assert tables(session(wire), splits) == tables(whole)


@pytest.mark.parametrize("step", [1, 3, 11])
def test_segments_of_any_size(wire: Wire, step: int) -> None:
    wire.open()
    for side, data in (
        (CLIENT, fetch(5, "test")),
        (SERVER, fetched()),
        (CLIENT, MULTI_FETCH),
        (SERVER, MULTI_FETCHED),
    ):
        for at in range(0, len(data), step):
            wire.send(side, data[at : at + step])
    found = tables(wire)
    assert [(row["api_name"], row["status"]) for row in found["exchanges"]] == [
        ("Fetch", "answered"),
        ("MultiFetch", "answered"),
    ]


@pytest.mark.parametrize("topic", ["t", "to", "top", "test", "topic", "orders", "a" * 13, "b" * 240])
@pytest.mark.parametrize("first", [fetch, lambda topic: produce(topic=topic)], ids=["fetch", "produce"])
def test_topics_whose_length_looks_like_a_version(wire: Wire, topic: str, first: Any) -> None:
    found = tables(wire.open().send(CLIENT, first(topic=topic)).send(CLIENT, fetch(topic=topic)))
    assert found["connections"][0]["protocol"] == "kafka-0.7"
    assert [row["topic"] for row in found["partitions"]] == [topic, topic]


def test_a_connection_that_is_older_than_the_capture(wire: Wire) -> None:
    wire.send(SERVER, SET * 3).send(CLIENT, fetch(1)).send(SERVER, fetched())
    wire.send(CLIENT, MULTI_FETCH).send(SERVER, MULTI_FETCHED)
    found = tables(wire)
    assert [(row["api_name"], row["status"]) for row in found["exchanges"]] == [
        ("Fetch", "answered"),
        ("MultiFetch", "answered"),
    ]
    assert [row["error_count"] for row in found["exchanges"]] == [0, 1]
    assert found["connections"][0]["skipped_bytes"] == 3 * len(SET)


def test_wrong_bytes_are_faults(wire: Wire) -> None:
    wrong = frame(b"\x00\x00" + message(b"fine") + b"\x00\x00\x00\x02\x01" + bytes(9))
    found = tables(
        wire.open()
        .send(CLIENT, fetch(1))
        .send(SERVER, wrong)
        .send(CLIENT, OFFSETS)
        .send(SERVER, frame(b"\x00\x00" + b"\x00\x00\x00\x09"))
        .send(CLIENT, frame(b"\x00\x04\x00\x09abc"))
    )
    assert [row["fault"] for row in found["exchanges"]] == [
        "response: length 2 is too small at byte 14 of the messages of partition 0",
        "response: offsets at byte 2: 9 elements, but 0 bytes left",
        "request: topic at byte 2: length 9, but 3 bytes left",
    ]
    assert found["connections"][0]["faults"] == 3


@pytest.mark.slow
def test_newer_requests_come_first(wire: Wire, tmp_path: Path) -> None:
    """Every key and version that could be read as 0.7 too, with likely correlation ids, is read right."""
    number = 0
    for key in range(5):
        for version in APIS[key].versions:
            for correlation in (0, 1, 0x41424344, 0x7E7E7E7E):
                number += 1
                other = Wire(tmp_path / f"{number}").open()
                body = b"\x00\x00\x00\x01\x00\x04test" + bytes(20)
                if key == 0:
                    transactional_id = b"\0\0" if version >= 9 else b"\xff\xff" if version >= 3 else b""
                    topics = b"\2\5test" if version >= 9 else b"\0\0\0\1\0\4test"
                    body = transactional_id + struct.pack(">hi", 1, 1000) + topics + bytes(20)
                other.send(CLIENT, request(key, version, correlation, body)).send(
                    SERVER, response(correlation)
                )
                assert tables(other)["connections"][0]["protocol"] == "kafka"


@pytest.mark.slow
def test_mutations_never_raise(wire: Wire, tmp_path: Path) -> None:
    stream = produce() + fetch(1) + MULTI_FETCH + MULTI_PRODUCE + OFFSETS
    for at in range(0, len(stream), 3):
        for value in (0, 0x7F, 0xFF):
            data = stream[:at] + bytes([value]) + stream[at + 1 :]
            other = (
                Wire(tmp_path / f"{at}-{value}")
                .open()
                .send(CLIENT, data)
                .send(SERVER, fetched() + MULTI_FETCHED)
            )
            tables(other.close())


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_no_newer_traffic_is_taken_for_it(capture: Path) -> None:
    splits = index_captures(open_inputs([str(capture)], "").files).splits
    protocols = set()
    for batches in dissect_batches((scan_split(split) for split in splits), splits):
        if "connections" in batches:
            protocols.update(batches["connections"]["protocol"].to_pylist())
    assert protocols & {"kafka", "tls"}
    assert "kafka-0.7" not in protocols
