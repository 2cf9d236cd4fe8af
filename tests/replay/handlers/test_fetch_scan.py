"""`replay.handlers.fetch_scan`, against a target on paper."""

from __future__ import annotations

from typing import Any

import pytest

from kdissect.protocol.codec.messages import (
    encode_response,
)
from kdissect.replay.engine.pass_worker import OLD_MESSAGE
from kdissect.replay.handlers.fetch_scan import scan_fetch_response
from kdissect.replay.rewrite.batch_rewrite import modern


@pytest.mark.parametrize("version", range(4, 19))
def test_a_glance_at_a_fetch_tells_what_the_codec_tells(version: int) -> None:
    records = modern(OLD_MESSAGE).data
    names = (
        [{"topic": "orders"}, {"topic": "sales"}]
        if version < 13
        else [{"topic_id": b"o" * 16}, {"topic_id": b"s" * 16}]
    )
    aborted = [{"producer_id": 1, "first_offset": 2}] * 3
    told = [
        {
            "partition_index": 3,
            "error_code": 0,
            "high_watermark": 40,
            "aborted_transactions": aborted,
            "records": records * 2,
        },
        {
            "partition_index": 4,
            "error_code": 0,
            "high_watermark": 50,
            "aborted_transactions": None,
            "records": records[:-1],
        },
        {
            "partition_index": 5,
            "error_code": 0,
            "high_watermark": 60,
            "aborted_transactions": [],
            "records": None,
        },
    ]
    responses = [topic | {"partitions": told} for topic in names]
    body: dict[str, Any] = {"responses": responses}
    if version >= 7:
        body |= {"error_code": 0, "session_id": 77}
    if version >= 5:
        for each in told:
            each["log_start_offset"] = 11
    frame = encode_response(1, version, {"correlation_id": 9}, body)
    found = scan_fetch_response(frame, version)
    if version < 7:
        assert found is None
        return
    assert found is not None
    assert found.session == 77
    partitions = [(3, 40, 11, 1, 2 * len(records)), (4, 50, 11, None, 0), (5, 60, 11, None, 0)]
    assert [tuple(each[1:]) for each in found.partitions] == partitions * 2
    assert [each.topic for each in found.partitions] == [
        next(iter(topic.values())) for topic in names for _ in told
    ]
    told[1]["error_code"] = 1
    assert scan_fetch_response(encode_response(1, version, {"correlation_id": 9}, body), version) is None
    assert [scan_fetch_response(frame[:cut], version) for cut in range(len(frame))] == [None] * len(frame)
    assert scan_fetch_response(frame + b"\0", version) is None
