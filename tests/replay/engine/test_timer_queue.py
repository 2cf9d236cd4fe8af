"""When lines are looked at, and which answers are known again."""

from __future__ import annotations

from random import Random

from kdissect.replay.effects import Part
from kdissect.replay.engine.connection_queue import ConnectionQueue
from kdissect.replay.engine.fast_path.answer_cache import (
    LARGEST,
    MOST,
    AnswerCache,
)
from kdissect.replay.engine.timer_queue import TimerQueue


def test_lines_come_in_their_order_and_never_before_their_time() -> None:
    for seed in range(50):
        chance = Random(seed)
        lines = [ConnectionQueue(number, 1) for number in range(5)]
        planned = [(chance.randrange(100), chance.choice(lines)) for _ in range(60)]
        calendar = TimerQueue(planned)
        calendar.start_ns = 1000
        wanted = sorted([1000 + time for time, _ in planned])
        times: list[int] = []
        now = 1000
        while calendar.next_ns is not None:
            assert calendar.next_ns == wanted[len(times)]
            now = max(now, calendar.next_ns) + chance.randrange(10)
            found = calendar.take(now, 4)
            assert 1 <= len(found) <= 4
            times += wanted[len(times) : len(times) + len(found)]
            assert times[-1] <= now
        assert times == wanted


def test_alarms_come_beside_what_is_planned_once_each() -> None:
    early, late = ConnectionQueue(1, 1), ConnectionQueue(2, 1)
    calendar = TimerQueue([(50, early), (90, late)])
    calendar.alarm(late, 20)
    calendar.alarm(late, 20)
    assert calendar.next_ns == 20
    assert calendar.take(19, 9) == []
    assert calendar.take(20, 9) == [late]
    assert calendar.next_ns == 50
    calendar.alarm(late, 30)
    assert calendar.take(60, 1) == [early]
    assert calendar.take(60, 1) == [late]
    calendar.alarm(early, 70)
    calendar.clear()
    assert calendar.next_ns is None
    assert calendar.take(100, 9) == []


def test_answers_are_known_by_all_but_their_correlation_id() -> None:
    familiar, part = AnswerCache(), Part(3, 9, {})
    familiar.add(part, b"\0\0\0\1the same")
    assert familiar.knows(part, b"\0\0\0\2the same")
    assert not familiar.knows(part, b"\0\0\0\1another")
    assert not familiar.knows(part._replace(version=8), b"\0\0\0\1the same")
    familiar.add(part, bytes(LARGEST + 1))
    assert not familiar.knows(part, bytes(LARGEST + 1))


def test_no_more_answers_are_remembered_than_there_is_room_for() -> None:
    familiar, part = AnswerCache(), Part(3, 9, {})
    frames = [bytes(4) + number.to_bytes(LARGEST - 4, "big") for number in range(MOST // LARGEST + 1)]
    for frame in frames:
        familiar.add(part, frame)
    assert [familiar.knows(part, frame) for frame in frames] == [False] * (len(frames) - 1) + [True]
