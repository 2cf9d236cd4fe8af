"""Which of several silent servers stood still, told as signals of servers that owe responses."""

import pytest

from kdissect.report.incidents.cause import Case, SignalIndex
from kdissect.report.incidents.frozen_causes import broker_frozen
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal

SECOND, MS = 10**9, 10**6
BEGIN = 100 * SECOND


def silence(name: str, begin_ms: int, end_ms: int, own: int = 0, asked_later: int = 1) -> Signal:
    measures = {
        "asked_later": asked_later,
        "connections": 3, "requests": 4, "silent_ns": (end_ms - begin_ms) * MS, "own_requests": own,
        "rival_reaction_ns": 0,
    }  # fmt: skip
    span = BEGIN + begin_ms * MS, BEGIN + end_ms * MS
    return make_signal("server_silent", (SubjectKind.SERVER, name), span, "", measures=measures, requests=4)


def frozen(*silences: Signal) -> dict[str, str]:
    """Return the headlines of the servers that are told to have stood still, by name."""
    index = SignalIndex(silences)
    told = {}
    for one in silences:
        found = broker_frozen(Case(one, index, (BEGIN - 60 * SECOND, BEGIN + 60 * SECOND)))
        if found is not None:
            told[found.subject.name] = found.headline
    return told


def test_leaders_that_answer_when_their_follower_does_have_waited_for_it() -> None:
    """The silence of the leader is the longest, as its last response lies further back."""
    told = frozen(silence("a", 0, 4_453), silence("b", 257, 4_442), silence("c", 1_396, 4_446))
    assert list(told) == ["b"]
    assert told["b"].startswith("Probably b froze at ")
    assert "waited at a, b, c, and it was the first to answer again" in told["b"]


def test_leaders_that_give_a_follower_up_answer_before_it() -> None:
    told = frozen(silence("a", 0, 5_000), silence("b", 100, 6_200))
    assert list(told) == ["b"]
    assert told["b"].endswith("and it took longest")


@pytest.mark.parametrize("own", [(1, 0), (2, 0)])
def test_a_server_that_owes_what_needs_no_follower_stood_still(own: tuple[int, int]) -> None:
    told = frozen(silence("a", 50, 4_500, own[0]), silence("b", 0, 4_440, own[1]))
    assert list(told) == ["a"]
    assert told["a"].startswith("A froze at ")


def test_servers_that_stand_still_together_are_one_incident() -> None:
    told = frozen(silence("a", 0, 4_500, own=2), silence("b", 60, 4_480, own=1), silence("c", 90, 4_300))
    assert list(told) == ["a"]
    assert told["a"].startswith("A and b froze together at ")
    assert told["a"].endswith("for 4.50s: they sent nothing while 8 requests on 6 connections waited")


@pytest.mark.parametrize(("asked_later", "told"), [(0, []), (2, ["a"])])
def test_servers_that_nobody_asks_meanwhile_share_a_busy_machine_with_their_clients(
    asked_later: int, told: list[str]
) -> None:
    silences = (silence(name, 0, 2_700, own=2, asked_later=asked_later) for name in "ab")
    assert list(frozen(*silences)) == told


def test_servers_that_stand_still_at_other_times_are_told_apart() -> None:
    told = frozen(silence("a", 0, 5_500, own=2), silence("b", 60, 5_100, own=1))
    assert "together" not in told["a"]


def test_a_server_alone_of_which_only_writes_wait_may_have_a_follower_that_stood_still() -> None:
    only = silence("a", 0, 4_500)
    found = broker_frozen(Case(only, SignalIndex((only,)), (BEGIN - 60 * SECOND, BEGIN + 60 * SECOND)))
    assert found is not None
    assert "one of its followers may be what stood still" in found.speaks_against[-1]
