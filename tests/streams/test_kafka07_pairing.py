"""Kafka 0.7 has no correlation ids: the order of frames pairs them, and a loss ends the order."""

from tests.helpers.segment_wire import CLIENT, SERVER, Wire
from tests.streams.test_kafka07_framing import OFFSETS, OFFSETS_TOLD, ZIPPED, fetch, fetched, tables


def test_an_answer_to_what_came_before_the_capture_takes_no_place(wire: Wire) -> None:
    wire.send(SERVER, fetched(b"", 1)).send(CLIENT, fetch(1)).send(SERVER, fetched())
    found = tables(wire)
    assert [(row["status"], row["error_name"]) for row in found["exchanges"]] == [
        ("orphan_response", "OFFSET_OUT_OF_RANGE"),
        ("answered", "NONE"),
    ]
    assert (found["exchanges"][0]["api_key"], found["exchanges"][0]["api_name"]) == (None, None)


def test_after_a_loss_nothing_is_paired_with_the_wrong_request(wire: Wire) -> None:
    wire.open().send(CLIENT, fetch(1)).send(SERVER, fetched())
    wire.send(CLIENT, fetch(2)).lose(SERVER, len(fetched()))
    wire.send(CLIENT, fetch(3)).send(SERVER, fetched(), after_ms=40)
    wire.send(CLIENT, fetch(4), after_ms=40).send(SERVER, fetched(ZIPPED)).close()
    found = tables(wire)
    said = {row["ordinal"]: row for row in found["partitions"]}
    status = {row["ordinal"]: row["status"] for row in found["exchanges"] if row["ordinal"] is not None}
    assert status[0] == "answered"
    assert status[1] == "unanswered"
    assert status[3] == "answered"
    assert (said[3]["offset"], said[3]["codec"]) == (4, "gzip")


def test_a_cut_packet_is_no_fault_and_keeps_the_order(wire: Wire) -> None:
    wire.open().send(CLIENT, fetch(1)).send(SERVER, fetched()[:20], missing=len(fetched()) - 20)
    wire.send(CLIENT, OFFSETS).send(SERVER, OFFSETS_TOLD)
    found = tables(wire)
    assert [(row["status"], row["fault"]) for row in found["exchanges"]] == [("answered", None)] * 2
    assert found["exchanges"][0]["response_bytes"] == len(fetched()) - 4
