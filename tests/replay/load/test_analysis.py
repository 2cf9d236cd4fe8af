"""`replay.load.analysis`: what one look at every request finds out."""

from __future__ import annotations

from kdissect.replay.disposition import Disposition
from kdissect.replay.load.analysis import load
from kdissect.replay.settings import Pace
from tests.helpers.paper_target import MS, Script, settings

INIT, END, METADATA, FETCH = 22, 26, 3, 1


def test_dependencies_orders_and_starts_are_found() -> None:
    script = Script()
    init = {"transactional_id": "payments", "transaction_timeout_ms": 1}
    issued = {"error_code": 0, "producer_id": 7, "producer_epoch": 0}
    script.add(0, INIT, 4, init, issued, in_flight=3)
    end = {"transactional_id": "payments", "producer_id": 7, "producer_epoch": 0, "committed": True}
    script.add(10, END, 5, end, issued | {"producer_epoch": 1}, connection=2)
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 9,
        "log_start_offset": 4,
        "records": b"",
    }
    body = {
        "replica_id": -1,
        "max_wait_ms": 1,
        "min_bytes": 1,
        "topics": [{"topic": "orders", "partitions": []}],
    }
    script.add(
        20, FETCH, 11, body, {"session_id": 5, "responses": [{"topic": "orders", "partitions": [partition]}]}
    )
    loaded = load(script.capture(), script.shelf, settings())
    assert [item.refusal for item in loaded.items] == [None] * 3
    assert loaded.issuers == {(7, 0): 0, (7, 1): 1}
    assert loaded.transactions == {"payments": [0, 1]}
    assert loaded.caps == {1: 3, 2: 1}
    assert (loaded.starts, loaded.sessions) == ({("orders", 0): 4}, {2: 5})
    assert loaded.source.topics["orders"].partitions == 1
    assert loaded.source.addresses == {("10.0.0.1", 9092)}


def test_a_request_is_anchored_at_the_response_that_its_client_saw_last() -> None:
    script = Script()
    for at, took in ((0, 5), (3, 20), (10, 1), (30, 1)):
        script.add(at, METADATA, 9, {"topics": []}, {"brokers": [], "topics": []}, took_ms=took)
    loaded = load(script.capture(), script.shelf, settings(pace=Pace.THINK))
    assert [(item.anchor, item.gap_ns) for item in loaded.items] == [
        (-1, 0),
        (-1, 3 * MS),
        (0, 5 * MS),
        (1, 7 * MS),
    ]


def test_what_cannot_be_sent_is_refused_for_its_reason() -> None:
    script = Script()
    script.add(0, METADATA, 9, {}, raw=bytes.fromhex("0003000900000007ffff") + b"\xff" * 3)
    script.add(1, METADATA, 9, {"topics": []})
    script.exclude(lambda request: request.index == 1, "--client")
    loaded = load(script.capture(), script.shelf, settings())
    assert [item.refusal and item.refusal.bucket for item in loaded.items] == [
        Disposition.UNDECODABLE,
        Disposition.POLICY,
    ]
    assert loaded.items[1].refusal is not None
    assert loaded.items[1].refusal.reason == "excluded by --client"
