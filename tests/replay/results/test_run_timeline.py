"""The course of a run in steps."""

from __future__ import annotations

from kdissect.replay.results.run_comparison import compare
from tests.helpers.run_pairs import late, run


def test_the_course_tells_what_was_due_sent_and_answered_when() -> None:
    pairs = [late(0, 0, 0, 3), late(1, 1, 0, 4), late(2, 2, 5, 1), late(3, 9, 0, None), late(4, 119, 0, 2)]
    course = compare(run(5), pairs)["course"]
    assert course["step_ms"] == 1
    assert [at for at, count in enumerate(course["due"]) if count] == [0, 1, 2, 9, 119]
    assert [at for at, count in enumerate(course["sent"]) if count] == [0, 1, 7, 9, 119]
    assert [course["response_p99_ms"][at] for at in (0, 1, 2, 3, 9)] == [3, 4, 6, None, None]
    assert [course["captured_p99_ms"][at] for at in (0, 1, 2, 3, 9)] == [2, 2, 2, None, None]
    assert [course["lag_max_ms"][at] for at in (0, 1, 2, 3, 9)] == [0, 0, 5, None, 0]


def test_the_course_has_few_steps_however_long_a_run_is() -> None:
    day_ms = 86_400_000
    course = compare(run(1_000), [late(each, each * day_ms // 1_000, 0, 1) for each in range(1_000)])[
        "course"
    ]
    assert course["step_ms"] == 1_000_000
    assert sum(course["due"]) == sum(course["sent"]) == 1_000
    assert len(course["due"]) == len(course["lag_max_ms"]) == 87
