"""When requests are due: absolute times that do not drift, at any speed."""

import dataclasses
from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.schedule import LONGEST_NS, DueTimes, LongGaps, Schedule
from kdissect.replay.load.analysis import load
from kdissect.replay.load.policy import Refusal
from kdissect.replay.settings import Pace
from tests.helpers.paper_target import MS, START, Script, settings

SECOND = 1_000 * MS


@pytest.mark.slow
@pytest.mark.parametrize("speed", [0.1, 0.5, 1.0, 1.7, 3.0, 10.0, 100.0])
def test_a_million_gaps_do_not_drift(speed: float) -> None:
    table = Schedule(Pace.SCHEDULE, speed, 1_700_000_000_000_000_000, 5_000)
    chance, captured = Random(7), 1_700_000_000_000_000_000
    exact = Fraction(speed)
    for number in range(1_000_000):
        captured += chance.randrange(0, 3_000_000)
        if number % 50_000 == 0 or number == 999_999:
            due = 5_000 + Fraction(captured - 1_700_000_000_000_000_000) / exact
            assert abs(table.due_ns(captured) - due) < 1_000  # a microsecond after up to four hours


def test_times_that_step_back_are_never_before_the_start() -> None:
    table = Schedule(Pace.SCHEDULE, 2.0, 1_000_000, 50)
    assert [table.due_ns(time) for time in (1_000_000, 3_000_000, 900_000, 2_000_000)] == [
        50,
        1_000_050,
        50,
        500_050,
    ]


def test_as_soon_as_possible_is_now() -> None:
    table = Schedule(Pace.ASAP, 1.0, 0, 42)
    assert table.due_ns(10**12) == 42
    assert table.after_ns(50, 10**9) == 50


def test_thinking_takes_its_share_of_time() -> None:
    assert Schedule(Pace.THINK, 4.0, 0, 0).after_ns(30, 1_000) == 280
    assert Schedule(Pace.THINK, 0.5, 0, 0).after_ns(30, -5) == 30


@pytest.mark.parametrize("answered_s", [0, 3, 7, 12])
def test_thinking_in_a_ramp_takes_as_long_as_on_schedule(answered_s: int) -> None:
    table = Schedule(Pace.THINK, 2.0, 0, 77, ramp_ns=10 * SECOND)
    answered_ns = table.due_ns(answered_s * SECOND)
    assert table.after_ns(answered_ns, 4 * SECOND) == table.due_ns((answered_s + 4) * SECOND)
    assert table.after_ns(0, SECOND) == table.due_ns(SECOND)  # answered before the start


def test_times_far_apart_are_due_in_time_to_come() -> None:
    table = Schedule(Pace.THINK, 0.001, 0, 1_700_000_000 * SECOND)
    assert table.due_ns(1 << 60) == table.after_ns(table.start_ns, 1 << 60) == table.start_ns + LONGEST_NS
    assert DueTimes(table, [], None).of(1 << 60) == LONGEST_NS
    ramped = dataclasses.replace(table, ramp_ns=SECOND)
    assert ramped.due_ns(1 << 60) == ramped.after_ns(table.start_ns, 1 << 60) == table.due_ns(1 << 60)


def test_a_ramp_costs_half_of_itself_and_is_smooth() -> None:
    table = Schedule(Pace.SCHEDULE, 1.0, 0, 0, ramp_ns=10_000_000_000)
    dues = [table.due_ns(second * 1_000_000_000) for second in range(21)]
    assert dues[0] == 0
    assert dues[5] == 10_000_000_000  # half of the ramp's captured time takes the whole ramp
    assert dues[20] == 25_000_000_000
    gaps = [after - before for before, after in pairwise(dues)]
    assert gaps == sorted(gaps, reverse=True)  # faster and faster, then even
    assert gaps[-1] == 1_000_000_000


def test_long_gaps_are_shortened_and_counted() -> None:
    captured, wanted = np.array([0, 10, 1_000, 1_010, 5_000]), [0, 10, 110, 120, 220]
    for cut in range(len(captured) + 1):  # given in two parts
        gaps = LongGaps(100)
        times = [*gaps.without(captured[:cut]).tolist(), *gaps.without(captured[cut:]).tolist()]
        assert (times, gaps.removed_ns) == (wanted, 4_780)
    gaps = LongGaps(None)
    assert (gaps.without(np.array([3, 9])).tolist(), gaps.removed_ns) == ([3, 9], 0)


@pytest.mark.parametrize("pace", [Pace.SCHEDULE, Pace.ASAP])
@pytest.mark.parametrize("ramp_ns", [0, 300 * MS])
def test_requests_are_due_by_their_captured_time(pace: Pace, ramp_ns: int) -> None:
    script = Script()
    for at_ms in (0, 10, 500, 510, 530, 900):
        script.add(at_ms, 10, 1, {"key": "g", "key_type": 0})
    items = load(script.capture(), script.shelf, settings()).items
    items.refuse(1, Refusal(Disposition.POLICY, "not wanted"))  # so it ends no gap
    table = Schedule(pace, 1.7, START, 77, ramp_ns)
    captured = np.array([item.request.first_ns for item in items if item.refusal is None])
    for most_ns in (None, 100 * MS, 15 * MS):
        gaps, due = LongGaps(most_ns), DueTimes(table, items, most_ns)
        wanted = (table.dues_ns(gaps.without(captured)) - 77).tolist()
        assert due.column(captured).tolist() == wanted
        assert [due.of(time_ns) for time_ns in captured.tolist()] == wanted
    if pace is Pace.SCHEDULE and not ramp_ns:
        assert wanted[-1] == round(55 * MS / 1.7)
