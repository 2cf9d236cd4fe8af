"""The queues of what waits are bounded, keep their order, and give every node back."""

import pytest

from kdissect.jit.decorators import jit_flat
from kdissect.jit.rows import array_of
from kdissect.streams.flow_state import NO_ANSWER, ORPHAN_RESPONSE
from kdissect.streams.state_pools import with_more_exchanges, with_more_waiting
from kdissect.streams.waiting_queue import (
    MAX_EARLY,
    MAX_WAITING,
    WAITING_BYTES,
    give_up_all,
    new_waiting,
    rows_needed,
    wait_for_request,
    wait_for_response,
    waiting_request,
)
from tests.helpers.state_kernels import state_of


@jit_flat
def add_requests(state, count):
    for number in range(count):
        node = new_waiting(state)
        state.waiting[node].correlation_id = number
        wait_for_response(state, 0, node)


@jit_flat
def add_responses(state, count):
    for number in range(count):
        wait_for_request(state, 0, number, -1, state.frame)


@jit_flat
def find(state, correlation_id, most):
    return waiting_request(state, 0, correlation_id, most)


@jit_flat
def end(state):
    needed = rows_needed(state, 0)
    give_up_all(state, 0)
    return needed


@pytest.mark.slow
def test_all_that_waits_is_finished_in_order() -> None:
    state = state_of()
    free = state.counters.free_waiting_count
    add_requests(state, 5)
    add_responses(state, 3)
    assert state.counters.held == 8 * WAITING_BYTES
    assert state.waiting[find(state, 4, 5)].correlation_id == 4
    assert find(state, 4, 4) == find(state, 5, MAX_WAITING) == -1
    assert end(state) >= state.counters.exchange_count == 8
    finished = array_of(state.exchanges)[:8]
    assert finished["correlation_id"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert finished["status"].tolist() == [NO_ANSWER] * 5 + [ORPHAN_RESPONSE] * 3
    assert (state.connections[0].unanswered, state.connections[0].orphans) == (5, 3)
    assert (state.counters.free_waiting_count, state.counters.held) == (free, 0)


def test_full_queues_give_up_the_oldest() -> None:
    state = with_more_exchanges(with_more_waiting(state_of(), 2 * MAX_WAITING), 100)
    add_requests(state, MAX_WAITING + 2)
    add_responses(state, MAX_EARLY + 3)
    assert array_of(state.exchanges)["correlation_id"][:5].tolist() == [0, 1, 0, 1, 2]
    assert (state.connections[0].waiting_count, state.connections[0].early_count) == (MAX_WAITING, MAX_EARLY)
