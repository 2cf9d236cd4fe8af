"""`replay.engine.produce_frames` reads what a Produce request is about from its bytes."""

import pytest

from kdissect.protocol.codec.messages import encode_request
from kdissect.replay.engine.produce_frames import produced_in, records_span
from tests.helpers.paper_cluster import batch


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_partitions_and_records_are_read(version: int) -> None:
    named = [{"topic_id": bytes([number]) * 16, "name": name} for number, name in enumerate(("orders", "b"))]
    field = "topic_id" if version >= 13 else "name"
    data = [
        [{"index": 2, "records": batch(records=3)}, {"index": 300, "records": batch()}],
        [{"index": 0, "records": None}],
    ]
    topics = [{field: topic[field], "partition_data": each} for topic, each in zip(named, data, strict=True)]
    header = {"request_api_key": 0, "request_api_version": version, "correlation_id": 5, "client_id": "me"}
    body = {"transactional_id": "t", "acks": -1, "timeout_ms": 9, "topic_data": topics}
    frame = encode_request(header, body)
    produced = produced_in(len(frame).to_bytes(4, "big") + frame, version)
    assert produced.partitions == ((named[0][field], (2, 300)), (named[1][field], (0,)))
    assert produced.records == (3, 1, 0)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("size", [0, 1, 70, 124, 125, 126, 127, 128, 16_382, 16_383, 70_000])
def test_records_that_stand_last_are_found_by_where_their_length_stands(version: int, size: int) -> None:
    records = bytes(range(1, 8)) * 10_000
    header = {"request_api_key": 0, "request_api_version": version, "correlation_id": 5, "client_id": "me"}
    topic = {"name": "orders", "partition_data": [{"index": 2, "records": records[:size]}]}
    frame = encode_request(header, {"acks": 1, "timeout_ms": 9, "topic_data": [topic]})
    framed, compact = len(frame).to_bytes(4, "big") + frame, version >= 9
    at = produced_in(framed, version).at
    span = records_span(framed, at, compact)
    assert span is not None
    assert framed[slice(*span)] == records[:size]
    for other in (framed[:-1], framed + b"\0", framed[: len(framed) // 2], framed[:-1] + b"\1"):
        assert (records_span(other, at, compact) is None) or other[-1:] == b"\1"
    assert records_span(framed, len(framed) + 3, compact) is None


def test_a_length_that_takes_more_bytes_than_it_needs_is_not_looked_for() -> None:
    assert records_span(b"front\x02r" + bytes(3), 5, True) == (6, 7)
    assert records_span(b"front\x82\x00r" + bytes(3), 5, True) is None
    assert records_span(b"front\x02r" + b"\1\0\0", 5, True) is None  # a tagged field
