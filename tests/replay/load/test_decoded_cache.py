"""`replay.load.decoded_cache`: captured messages, decoded."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kdissect.replay.load.analysis import load
from kdissect.replay.load.decoded_cache import MOST_BYTES, CapturedMessages, DecodedCache
from kdissect.replay.load.spool import BLOCK_BITS, Spool, SpoolSlot
from tests.helpers.paper_cluster import batch, produce, took
from tests.helpers.paper_target import Script, settings


def test_small_and_large_requests_are_given_as_copies() -> None:
    script = Script()
    script.add(0, 0, 9, produce(batch(0)), took(7))
    script.add(1, 0, 9, produce(batch(0) * 100))
    script.add(2, 0, 9, {}, raw=b"\0\0\0\x09not a request")
    assert script.requests[1].frame.size > MOST_BYTES
    loaded = load(script.capture(), script.shelf, settings())
    captured = CapturedMessages(loaded.bodies, script.shelf.get)
    for request, copies in zip(script.requests[:2], (1, 100), strict=True):
        for _ in range(2):
            body = captured.request(request)
            (partition,) = body["topic_data"][0]["partition_data"]
            assert partition["records"] == batch(0) * copies
            partition["records"] = b""  # changes nothing for the next caller
    assert captured.request(script.requests[2]) == {}
    assert captured.response(script.requests[0])["responses"]
    assert captured.response(script.requests[1]) == {}


@pytest.mark.parametrize("attached", [False, True])
def test_frames_that_are_read_in_blocks_are_those_at_their_places(attached: bool, tmp_path: Path) -> None:
    chance, spool, read = Random(3), Spool(), list[int]()
    data = chance.randbytes(20 << BLOCK_BITS)
    base = 0
    if attached:
        (tmp_path / "frames").write_bytes(data)
        base = spool.attach(str(tmp_path / "frames"))
    else:
        spool.put(data)

    def frame(slot: SpoolSlot | None) -> bytes | None:
        read.append(1)
        return spool.get(slot)

    captured = CapturedMessages(DecodedCache(), frame)
    begins = sorted(chance.randrange(len(data) - 300) for _ in range(3000))
    slots = [SpoolSlot(base + at, chance.randrange(300)) for at in begins]
    slots[7::100] = [SpoolSlot(-1, 0)] * len(slots[7::100])  # nothing is there
    slots[9::500] = [SpoolSlot(base + 5, 3 << BLOCK_BITS)] * len(slots[9::500])  # more than a block
    found = captured.frames(*map(list, zip(*slots, strict=True)))
    assert found == [spool.get(slot) if slot.size else b"" for slot in slots]
    assert len(read) < 120
    end = base + len(data)
    assert captured.frames([end - 3, end + 9], [9, 1]) == [data[-3:], b""]
    spool.close()
