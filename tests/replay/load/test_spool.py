"""`replay.load.spool`: bytes that wait on disk."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kdissect.replay.load.spool import BLOCK_BITS, MOST_BLOCKS, Spool, SpoolSlot


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_what_was_put_is_read_back(frames: list[bytes]) -> None:
    with closing(Spool()) as spool:
        slots = [spool.put(frame) for frame in frames]
        assert [spool.get(slot) for slot in reversed(slots)] == frames[::-1]
        assert spool.get(None) is None
        assert spool.add(b"more") == sum(map(len, frames))


def test_attached_files_are_read_anywhere(tmp_path: Path) -> None:
    """Reads lie within blocks, across them, in more blocks than are kept, and behind the end."""
    chance = Random(1)
    files = [chance.randbytes(count << BLOCK_BITS | 77) for count in (0, 2 * MOST_BLOCKS)]
    with closing(Spool()) as spool:
        for number, data in enumerate(files):
            (tmp_path / str(number)).write_bytes(data)
        begins = [spool.attach(str(tmp_path / str(number))) for number in range(2)]
        for _ in range(500):
            number = chance.randrange(2)
            at, size = chance.randrange(len(files[number])), chance.choice((0, 10, 5_000, 1 << BLOCK_BITS))
            found = spool.get(SpoolSlot(begins[number] + at, size))
            assert found == files[number][at : at + size]
