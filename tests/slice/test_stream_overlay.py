"""Ranges of streams come from frames, in whatever order they were added, and from nothing else."""

import random

from kdissect.slice.stream_overlay import PlainParts, StreamOverlay, StreamRange


def test_ranges_are_those_of_the_stream() -> None:
    chance = random.Random(3)
    stream, frames, position = bytearray(), [], 0
    for number in range(60):
        gap = chance.choice([0, 0, 5])
        stream += b"\xff" * gap
        data = bytes([number]) * chance.randrange(1, 40)
        frames.append((position + gap, len(data) + 3, data))  # three bytes were not captured
        stream += (len(data) + 3).to_bytes(4) + data + b"\xff" * 3
        position = len(stream)
    chance.shuffle(frames)
    overlay = StreamOverlay()
    for start, size, data in frames:
        overlay.add((4, 1), start, size, data)
    for _ in range(500):
        start = chance.randrange(len(stream))
        length = chance.randrange(100)
        expected = bytes(stream[start : start + length]).ljust(length, b"\xff")
        assert overlay.read((4, 1), start, length) == expected
    assert overlay.read((4, 0), 0, 3) == b"\xff\xff\xff"
    overlay.close()


def test_plain_parts_come_with_the_packet_that_completed_them() -> None:
    parts = PlainParts()
    parts.add(7, 0, 100, 10, True)
    parts.add(7, 1, 100, 4, True)
    parts.add(7, 0, 100, 5, True)
    parts.add(7, 0, 101, 8, False)
    parts.add(7, 0, 102, 1, True)
    assert parts.of(7, 0, 100) == StreamRange(0, 15)
    assert parts.of(7, 1, 100) == StreamRange(0, 4)
    assert parts.of(7, 0, 101) is None
    assert parts.of(7, 0, 102) == StreamRange(23, 1)
    assert parts.is_open(7)
    assert not parts.is_open(8)
