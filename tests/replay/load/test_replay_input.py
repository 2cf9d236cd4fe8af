"""`replay.load.replay_input`: the requests whose outcome decides about others."""

from __future__ import annotations

from kdissect.replay.load.analysis import load
from tests.helpers.paper_target import Script, settings


def test_attempts_are_those_of_batches_and_of_records() -> None:
    script = Script()
    loaded = load(script.capture(), script.shelf, settings())
    assert loaded.attempts() == set()
    loaded.retries[9] = {("orders", 0): (3, 5)}
    loaded.repeats[8] = {("orders", 1): {(0, 2): (4,), (0, 3): (3, 6)}}
    assert loaded.attempts() == {3, 4, 5, 6}
