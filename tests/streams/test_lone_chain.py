"""Large responses whose requests were not captured."""

import random
from collections.abc import Collection

import numpy as np
import pytest

from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.tables.build import dissect_batches
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, response
from tests.helpers.state_kernels import follow, put_chunk, state_of

SIZE, COUNT, PACKET = 400_000, 12, 8_192


def read(wire: Wire, splits: int) -> tuple[list[int], str, int]:
    """Return the ids of the responses that were found, the protocol, and the bytes that belong to none."""
    batches = list(dissect_batches(*reversed(wire.splits(splits))))
    rows = [row for batch in batches if "exchanges" in batch for row in batch["exchanges"].to_pylist()]
    assert {row["status"] for row in rows} <= {"orphan_response"}
    (connection,) = (
        row for batch in batches if "connections" in batch for row in batch["connections"].to_pylist()
    )
    return [row["correlation_id"] for row in rows], connection["protocol"], connection["skipped_bytes"]


def send(wire: Wire, data: bytes, lost: Collection[int] = ()) -> None:
    for number, start in enumerate(range(0, len(data), PACKET)):
        part = data[start : start + PACKET]
        if number in lost:
            wire.lose(SERVER, len(part))
        else:
            wire.send(SERVER, part, after_ms=0.01)


def responses(first: int = 0) -> list[bytes]:
    """Return frames full of numbers by chance, of which many look like the beginning of a response."""
    chance = random.Random(7)
    return [response(number, chance.randbytes(SIZE)) for number in range(first, first + COUNT)]


@pytest.mark.parametrize("splits", [1, 9])
@pytest.mark.parametrize("handshake", [False, True])
def test_from_the_fourth_on_they_are_read(wire: Wire, handshake: bool, splits: int) -> None:
    if handshake:
        wire.accept()
    for frame in responses():
        send(wire, frame)
    assert read(wire, splits) == (list(range(3, COUNT)), "kafka", 3 * (SIZE + 8))


def test_from_the_middle_of_one_in_packets_without_regard_to_frames(wire: Wire) -> None:
    first, *others = responses(50)
    send(wire, first[1_000:])
    send(wire, others[0])
    send(wire, b"".join(others[1:]))
    ids, protocol, _ = read(wire, 3)
    assert (ids, protocol) == (list(range(54, 50 + COUNT)), "kafka")


def test_a_beginning_that_was_lost(wire: Wire) -> None:
    """All that comes behind a hole is there when the hole is given up, since nobody acknowledges."""
    for number, frame in enumerate(responses()):
        send(wire, frame, lost={0} if number == 2 else {5, 6})
    ids, protocol, _ = read(wire, 1)
    assert (ids, protocol) == (list(range(3, COUNT)), "kafka")


def test_a_beginning_that_was_cut_off(wire: Wire) -> None:
    """A chain ends in such a gap, and the next one needs four responses again."""
    for number, frame in enumerate(responses()):
        kept = 6 if number == 2 else PACKET // 2
        wire.send(SERVER, frame[:kept], missing=PACKET - kept)
        send(wire, frame[PACKET:])
    ids, protocol, _ = read(wire, 1)
    assert (ids, protocol) == (list(range(6, COUNT)), "kafka")


def test_ids_that_do_not_count_upwards_are_no_chain(wire: Wire) -> None:
    for frame in reversed(responses()):
        send(wire, frame)
    ids, protocol, _ = read(wire, 1)
    assert (ids, protocol) == ([], "unknown")


def test_a_beginning_over_two_packets(wire: Wire) -> None:
    """Nothing of it is let go while the rest is missing, whatever the splits are."""
    data = b"".join(responses())
    wire.send(SERVER, data[:100])
    for start in range(100, len(data), SIZE + 8):  # each packet ends 5 bytes into the next frame
        stop = min(len(data), (start // (SIZE + 8) + 1) * (SIZE + 8) + 5)
        begin = start if start == 100 else start - 95
        wire.send(SERVER, data[begin:stop])
    ids, protocol, _ = read(wire, 4)
    assert (ids, protocol) == (list(range(3, COUNT)), "kafka")


def test_a_chain_keeps_nothing_when_the_other_direction_comes(wire: Wire) -> None:
    """Bytes that begin like a response are kept for no longer than any others."""
    send(wire, response(1, bytes(10 * SIZE))[:SIZE])
    wire.send(CLIENT, b"\xff" * 300)
    send(wire, b"\xff" * (8 << 20))
    splits, pieces = wire.splits(64)
    conversations = new_flow_processor(splits, np.array(highest_versions(), np.int64))
    most = 0
    for piece in pieces:
        for _ in conversations.feed(piece):
            pass
        most = max(most, int(conversations.state.counters.held))
    assert 0 < most < 2 << 20


def test_what_is_given_up_ends_a_chain() -> None:
    """The place of the next response is gone with bytes that were let go to save memory."""
    state = state_of(arena=response(7, bytes(100)))
    put_chunk(state, 1, 5_000, 0, 108, 1)
    row = state.directions[1]
    row.frame, row.chain.looked = 5_000, 6_000
    row.chain.frames, row.chain.position = 2, 100
    assert not follow(state, 1)
    assert row.chain.frames == 0
