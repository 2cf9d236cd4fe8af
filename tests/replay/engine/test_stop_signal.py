"""The signal to stop, in shared memory."""

from __future__ import annotations

import os

from kdissect.replay.engine.stop_signal import SIZE, StopSignal


def test_the_first_reason_stays() -> None:
    signal = StopSignal()
    assert signal.reason == ""
    signal.give("interrupted")
    signal.give("another reason")
    assert signal.reason == "interrupted"


def test_a_long_reason_is_cut_wherever_a_character_ends() -> None:
    signal = StopSignal()
    signal.give("ä" * SIZE)
    assert signal.reason.startswith("ä" * (SIZE // 2 - 2))


def test_a_reason_that_a_child_gives_is_heard_here() -> None:
    signal = StopSignal()
    child = os.fork()
    if not child:
        signal.give("from the child")
        os._exit(0)
    os.waitpid(child, 0)
    assert signal.reason == "from the child"
