"""Good responses are told from all others by their bytes."""

from __future__ import annotations

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.replay.effects import Part
from kdissect.replay.engine.fast_path.expected_answer import (
    LARGEST,
    MOST,
    AnswerCache,
    expected_answer,
)


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


def test_responses_are_known_by_all_but_their_correlation_id() -> None:
    known, part = AnswerCache(), Part(3, 9, {})
    known.add(part, b"\0\0\0\1the same")
    assert known.knows(part, b"\0\0\0\2the same")
    assert not known.knows(part, b"\0\0\0\1another")
    assert not known.knows(part._replace(version=8), b"\0\0\0\1the same")
    known.add(part, bytes(LARGEST + 1))
    assert not known.knows(part, bytes(LARGEST + 1))


def test_no_more_responses_are_remembered_than_there_is_room_for() -> None:
    known, part = AnswerCache(), Part(3, 9, {})
    frames = [bytes(4) + number.to_bytes(LARGEST - 4, "big") for number in range(MOST // LARGEST + 1)]
    for frame in frames:
        known.add(part, frame)
    assert [known.knows(part, frame) for frame in frames] == [False] * (len(frames) - 1) + [True]
