"""`replay.target.leaders`, against a target on paper."""

from __future__ import annotations

import pytest

from kdissect.replay.settings import Pace
from tests.helpers.paper_cluster import PRODUCE
from tests.helpers.paper_metadata import (
    NEVER,
    Moving,
    S,
    late,
    nothing,
    produced,
)


@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize("prepared", [False, True])
def test_what_is_produced_waits_for_a_leader(acks: int, prepared: bool) -> None:
    done = produced(acks, prepared, late(3 * S))
    assert done.buckets() == {"answered" if acks else "no answer due": 5}
    assert all(3 * S <= at < 5 * S for at, _, _ in done.sent(PRODUCE))


def test_a_leader_that_never_comes_is_waited_for_once() -> None:
    done = produced(1, False, late(NEVER))
    assert done.buckets() == {"dependency": 5}
    assert {each.reason for each in done.player.results} == {"t-orders-0 has no leader on the target"}
    assert done.target.now_ns < 50 * S


@pytest.mark.parametrize("prepared", [False, True])
def test_who_is_told_nothing_but_a_closed_connection_looks_for_the_leader(prepared: bool) -> None:
    paper = Moving(nothing)
    done = produced(0, prepared, paper, apart_ms=200, pace=Pace.SCHEDULE)
    assert done.buckets() == {"no answer due": 5}
    assert paper.took == [2, 1, 1, 1, 1]
    assert done.context.notes.counts["metadata refreshed"] == 1
