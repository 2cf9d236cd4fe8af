"""`replay.load.spool`: bytes that wait on disk."""

from __future__ import annotations

from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from kdissect.replay.load.spool import Spool


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_what_was_put_is_read_back(frames: list[bytes]) -> None:
    with closing(Spool()) as spool:
        slots = [spool.put(frame) for frame in frames]
        assert [spool.get(slot) for slot in reversed(slots)] == frames[::-1]
        assert spool.get(None) is None
        assert spool.add(b"more") == sum(map(len, frames))
