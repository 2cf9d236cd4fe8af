"""`replay.load.frame_places`: the place of a frame in its capture is where its bytes are."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.prescan import new_processor, scan_pieces
from kdissect.jit.rows import array_of
from kdissect.replay.load.frame_places import NO_PLACE, FramePlaces, equal_bytes
from kdissect.streams.tls.keylog import NO_KEYS
from tests.helpers.recorded import CAPTURES


def test_places_lead_to_the_bytes_of_frames() -> None:
    path = CAPTURES / "steady.pcapng"
    index = index_captures(open_inputs([str(path)], "").files, 1 << 18)
    processor, captured = new_processor(index.splits, NO_KEYS), path.read_bytes()
    assert len(index.splits) > 1
    found = frames = 0
    for pieces in scan_pieces(index.splits, ()):
        places = FramePlaces(pieces, index.splits)
        for batch in processor.feed(pieces):
            rows = batch.exchanges
            from_b = array_of(processor.state.connections)["client_side"][rows["connection"]] == 1
            first = array_of(processor.state.directions)["first_sequence"][2 * rows["connection"] + from_b]
            offsets = places.offsets(rows["request"], first)
            frames += len(offsets)
            for row, offset in zip(rows["request"], offsets.tolist(), strict=True):
                if offset != NO_PLACE:
                    data = bytes(batch.arena[row["start"] : row["stop"]])
                    found += captured[offset : offset + len(data)] == data
            assert np.all(offsets < len(captured))
    assert found > 0.9 * frames > 1000


def test_ranges_are_compared_byte_by_byte(tmp_path: Path) -> None:
    arena = np.frombuffer(bytes(range(200)) * 100, np.uint8)
    data = bytearray(b"--" + arena.tobytes())
    data[2 + 10] ^= 1
    data[2 + 15_000] ^= 1
    (tmp_path / "capture").write_bytes(data)
    starts = np.array([0, 8, 11, 300, 9000, 9000, 19_900])
    sizes = np.array([10, 5, 5, 0, 5000, 9000, 200])
    with (tmp_path / "capture").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    equal = equal_bytes(arena, starts, mapped, starts + 2, sizes)
    mapped.close()
    assert equal.tolist() == [True, False, True, True, True, False, False]
