"""`replay.engine.produce_frames` reads what a Produce request is about from its bytes."""

import pytest

from kdissect.protocol.codec.messages import encode_request
from kdissect.replay.engine.produce_frames import produced_in
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
