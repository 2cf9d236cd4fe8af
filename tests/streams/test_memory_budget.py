"""Memory of connections is added up, and those that hold most are found."""

import numpy as np
import pytest

from kdissect.streams.memory_budget import heaviest, held_by_each
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from tests.helpers.followed import VERSIONS
from tests.helpers.segment_wire import CLIENT, Wire, request


@pytest.mark.parametrize(
    ("least", "rows"), [(0, []), (1, [1]), (9, [1]), (10, [1, 3, 4]), (19, [1, 3, 4]), (20, [0, 1, 3, 4])]
)
def test_the_fewest_that_hold_enough_and_their_equals(least: int, rows: list[int]) -> None:
    assert heaviest(np.array([1, 9, 0, 5, 5]), least).tolist() == rows


def test_each_part_of_what_waits_counts(wire: Wire) -> None:
    wire.open().send(CLIENT, request(3, 1, 1, bytes(100)))  # waits for its response
    wire.send(CLIENT, request(3, 1, 2, bytes(500))[:300])  # a part of a frame
    wire.lose(CLIENT, 50).send(CLIENT, bytes(200))  # waits behind a hole
    splits, pieces = wire.splits()
    processor = new_flow_processor(splits, VERSIONS)
    for _ in processor.feed(pieces[0]):
        pass
    held = held_by_each(processor.state, 1)
    assert held.tolist() == [processor.state.counters.held]
    assert held[0] > 100 + 300 + 200
