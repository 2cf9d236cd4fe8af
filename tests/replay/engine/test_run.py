"""A replay from a capture to its passes, against a broker that does nothing, and one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.player import Player
from kdissect.replay.engine.run import PlayedPass, Replay
from kdissect.replay.safety import AbortRun
from kdissect.replay.settings import Pace, ReplaySettings
from tests.helpers.null_target import null_target
from tests.helpers.recorded import CAPTURES

CAPTURE = str(CAPTURES / "limping.pcapng")


@pytest.fixture(scope="module")
def target() -> Iterator[tuple[str, int]]:
    with null_target() as address:
        yield "127.0.0.1", int(address.rpartition(":")[2])


@pytest.mark.parametrize("processes", [1, 2])
def test_every_request_of_every_pass_has_a_result(target: tuple[str, int], processes: int) -> None:
    asked = ReplaySettings(target=(target,), pace=Pace.ASAP, loops=2, processes=processes)
    notices: list[str] = []
    with closing(Replay(asked, [CAPTURE])) as replay:
        replay.learn()
        replay.play(notices.append)
        assert notices == ["pass 1 of 2", "pass 2 of 2"]
        for played in replay.passes:
            assert len(played.spools) == processes
            assert sorted(played.outcome.results.indices()) == list(range(len(replay.loaded.items)))
            answered = [each for each in played.outcome.results if each.bucket is Disposition.ANSWERED]
            assert answered
            assert all(played.answer(each, each.answers[0][1]) for each in answered)


def test_a_pass_that_fails_is_saved_and_the_error_is_raised(
    target: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[tuple[int, PlayedPass]] = []
    wake = Player.wake

    def fail(self: Player) -> None:
        wake(self)  # with the pace `asap` there may be no second call
        raise KeyError("a defect")

    monkeypatch.setattr(Player, "wake", fail)
    asked = ReplaySettings(target=(target,), pace=Pace.ASAP, processes=1)
    with closing(Replay(asked, [CAPTURE])) as replay:
        replay.learn()
        with pytest.raises(KeyError, match="a defect"):
            replay.play(save=lambda number, played: saved.append((number, played)))
        ((number, played),) = saved
        assert number == 0
        assert played.outcome.stopped == "the replayer failed: KeyError: 'a defect'"
        assert sorted(played.outcome.results.indices()) == list(range(len(replay.loaded.items)))


def test_a_target_that_does_not_answer_is_said_so() -> None:
    asked = ReplaySettings(target=(("127.0.0.1", 1),))
    with closing(Replay(asked, [CAPTURE])) as replay, pytest.raises(AbortRun, match="cannot be reached"):
        replay.learn()
