"""`replay.load.captured_fetch_sessions`, against a target on paper."""

from __future__ import annotations

from kdissect.replay.load.captured_fetch_sessions import CapturedFetchSessions
from tests.helpers.rewriting_cases import fetch, names


def test_captured_sessions_are_known_in_full() -> None:
    sessions = CapturedFetchSessions(names())
    full, said, _ = sessions.follow(sessions.read("a:1", fetch(0, 0, {0: 1, 1: 2}), issued=9)) or ({}, {}, [])
    assert set(full) == set(said) == {("orders", 0), ("orders", 1)}
    full, _, gone = sessions.follow(sessions.read("a:1", fetch(9, 1, {1: 5, 2: 0}, (0,)), issued=9)) or (
        {},
        {},
        [],
    )
    assert gone == [("orders", 0)]
    assert set(full) == {("orders", 1), ("orders", 2)}
    assert full["orders", 1]["fetch_offset"] == 5
    # Another broker's, or older than the capture.
    assert sessions.follow(sessions.read("b:1", fetch(9, 1, {}), issued=9)) is None
