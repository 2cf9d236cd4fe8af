"""Which responses are recognized by their bytes."""

from __future__ import annotations

from kdissect.replay.effects import Part
from kdissect.replay.engine.fast_path.answer_cache import LARGEST, MOST, AnswerCache


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
