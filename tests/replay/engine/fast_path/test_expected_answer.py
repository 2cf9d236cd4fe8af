"""The response that a Produce request hopes for is told from all others by its bytes."""

from __future__ import annotations

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.replay.engine.fast_path.expected_answer import expected_answer


@pytest.mark.parametrize("version", range(3, 14))
def test_the_expected_response_is_recognized_and_no_other_one(version: int) -> None:
    topic: str | bytes = b"i" * 16 if version >= 13 else "orders"
    expected = expected_answer(version, ((topic, (1, 4)),))
    key = "topic_id" if version >= 13 else "name"

    def response(error: int = 0, throttle_ms: int = 0, index: int = 1) -> bytes:
        partitions = [
            {"index": index, "error_code": 0, "base_offset": -7},
            {"index": 4, "error_code": error, "base_offset": 1 << 40, "log_append_time_ms": 123},
        ]
        body = {
            "responses": [{key: topic, "partition_responses": partitions}],
            "throttle_time_ms": throttle_ms,
        }
        return encode_response(ApiKey.PRODUCE, version, {"correlation_id": 99}, body)

    good = response()
    assert expected.matches(good)
    offsets = [int.from_bytes(good[at : at + 8], "big", signed=True) for at in expected.offsets]
    assert offsets == [-7, 1 << 40]
    for other in (response(error=6), response(throttle_ms=1), response(index=2), good[:-1], good + b"\0"):
        assert not expected.matches(other)
