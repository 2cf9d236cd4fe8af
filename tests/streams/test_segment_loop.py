"""The loop over segments: where it stops, and that a segment is not received twice."""

import numpy as np

from kdissect.capture.segment_index import (
    CAPTURED,
    FLAG_ACK,
    FLAG_SYN,
    FLAGS,
    PACKET,
    SEGMENT_COLUMNS,
    SEQ,
    TIME,
)
from kdissect.streams.flow_state import DONE, FULL_WAITING, PROBES, REPEATS, TOO_MUCH_HELD
from kdissect.streams.segment_loop import advance
from kdissect.streams.state_pools import with_more_waiting
from tests.helpers.segment_wire import request
from tests.helpers.state_kernels import state_of

COUNT = 400  # requests: more than may wait at first


def table(sequences: list[int], sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """A SYN with sequence number 0, then segments; and where their payload lies in the arena."""
    count = len(sizes) + 1
    segments = np.zeros((SEGMENT_COLUMNS, count), np.int64, order="F")  # as the engine hands them over
    segments[TIME] = 1_000_000_000 + 1_000_000 * np.arange(count)
    segments[PACKET] = np.arange(count) + 1
    segments[SEQ, 1:], segments[CAPTURED, 1:], segments[FLAGS, 1:] = sequences, sizes, FLAG_ACK
    segments[FLAGS, 0] = FLAG_SYN
    return segments, np.maximum(segments[SEQ], 1)


def test_it_stops_between_two_frames_and_goes_on_with_the_next() -> None:
    payload = b"".join(request(3, 1, number) for number in range(COUNT))
    half = len(payload) // 2
    state = state_of(arena=b"." + payload)
    state.counters.most_held = 1 << 30
    segments, offsets = table([1, 1 + half], [half, len(payload) - half])
    rows = np.zeros(3, np.int64)
    first, stops = 0, []
    while True:
        code, first = advance(state, segments, rows, offsets, first)
        if code == DONE:
            break
        stops.append((code, first, state.counters.reading))
        state = with_more_waiting(state, 1)
    assert first == 3
    assert state.counters.reading == -1
    assert stops
    assert {code for code, *_ in stops} == {FULL_WAITING}
    assert all(reading == 0 for *_, reading in stops)
    assert state.connections[0].requests == COUNT
    assert state.directions[0].payload_bytes == len(payload)


def test_a_segment_waits_while_too_much_is_held() -> None:
    state = state_of(arena=bytes(100))
    state.counters.held, state.counters.most_held = 2, 1
    segments, offsets = table([1], [10])
    assert advance(state, segments, np.zeros(2, np.int64), offsets, 0) == (TOO_MUCH_HELD, 0)
    assert state.directions[0].payload_bytes == 0


def test_segments_are_marked_that_bring_bytes_again() -> None:
    state = state_of(arena=bytes(200))
    state.counters.most_held = 1 << 30
    segments, offsets = table([1, 101, 51, 200, 201], [100, 100, 60, 1, 10])
    assert advance(state, segments, np.zeros(6, np.int64), offsets, 0) == (DONE, 6)
    assert (segments[FLAGS] & (REPEATS | PROBES)).tolist() == [0, 0, 0, REPEATS, PROBES, 0]
