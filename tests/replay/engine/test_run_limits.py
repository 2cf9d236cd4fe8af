"""Limits of a pass, its ends, and the signal to stop in shared memory."""

from __future__ import annotations

import os

import pytest

from kdissect.replay.engine.connection_queue import ConnectionQueue
from kdissect.replay.engine.run_limits import (
    CONNECTION_WAIT,
    IN_FLIGHT_WAIT,
    RATE_CAP,
    SIZE,
    STEP_NS,
    WINDOW_NS,
    RunLimits,
    StopSignal,
    Wait,
)
from kdissect.replay.net.pool_counters import PoolCounters
from kdissect.replay.settings import Breaker, Caps


def test_the_first_reason_stays() -> None:
    signal = StopSignal()
    assert signal.reason == ""
    signal.give("interrupted")
    signal.give("another reason")
    assert signal.reason == "interrupted"


def test_a_long_reason_is_cut_wherever_a_character_ends() -> None:
    signal = StopSignal()
    signal.give("ä" * SIZE)
    assert signal.reason.startswith("ä" * (SIZE // 2 - 2))


def test_a_reason_that_a_child_gives_is_heard_here() -> None:
    signal = StopSignal()
    child = os.fork()
    if not child:
        signal.give("from the child")
        os._exit(0)
    os.waitpid(child, 0)
    assert signal.reason == "from the child"


S = 1_000_000_000


def limits(breaker: Breaker | None = None, stop: StopSignal | None = None, **caps: float) -> RunLimits:
    return RunLimits(Caps(**caps), breaker or Breaker(), stop)  # type: ignore[arg-type]


def reason(
    limits: RunLimits, now_ns: int = 0, elapsed_ns: int = 0, behind_ns: int = 0, refused: int = 0
) -> str:
    counters = PoolCounters(refused_in_a_row=refused, last_refusal="here:9092: no connection within 8 s")
    return limits.reason_to_stop(now_ns, elapsed_ns, behind_ns, counters)


def test_no_more_is_in_flight_than_the_connection_had() -> None:
    free, queue = limits(), ConnectionQueue(1, 2)
    for _ in range(2):
        assert free.may_send(queue, 0) is None
        free.begin(queue, 10, 0)
    assert free.may_send(queue, 0) is IN_FLIGHT_WAIT
    free.end(queue)
    assert free.may_send(queue, 0) is None
    assert (free.in_flight, free.peak_in_flight, free.peak_connections) == (1, 2, 1)


def test_a_connection_waits_for_another_one_to_end() -> None:
    capped, one, other = limits(connections=1), ConnectionQueue(1, 9), ConnectionQueue(2, 9)
    capped.begin(one, 10, 0)
    assert capped.may_send(one, 0) is None
    assert capped.may_send(other, 0) is CONNECTION_WAIT
    capped.close(one)
    assert capped.may_send(other, 0) is None


@pytest.mark.parametrize(
    ("caps", "wait_ns"),
    [
        ({"requests_per_second": 10}, S // 10),
        ({"bytes_per_second": 1000}, S // 2),
        ({"requests_per_second": 1, "bytes_per_second": 1000}, S),
    ],
)
def test_rates_are_kept_by_waiting(caps: dict[str, float], wait_ns: int) -> None:
    rated, queue = limits(**caps), ConnectionQueue(1, 9)
    rated.begin(queue, 500, 7)
    assert rated.may_send(queue, 7) == Wait(RATE_CAP, 7 + wait_ns)
    assert rated.may_send(queue, 7 + wait_ns) is None
    rated.begin(queue, 500, 8)  # it began all the same: the next one waits for both
    assert rated.may_send(queue, 8) == Wait(RATE_CAP, 7 + 2 * wait_ns)


def test_duration_and_bytes_end_the_pass() -> None:
    timed = limits(duration_s=2)
    assert reason(timed, elapsed_ns=2 * S) == ""
    assert reason(timed, elapsed_ns=2 * S + 1) == "--max-duration 2s is over"
    sized, queue = limits(bytes_in_all=1000), ConnectionQueue(1, 9)
    sized.begin(queue, 999, 0)
    assert reason(sized) == ""
    sized.begin(queue, 1, 0)
    assert reason(sized) == "--max-bytes 1,000 are sent"


def test_another_process_that_stops_stops_this_one() -> None:
    stop = StopSignal()
    one, other = limits(stop=stop), limits(stop=stop)
    assert reason(other) == ""
    one.stop_others("interrupted")
    assert reason(other) == "interrupted"
    limits().stop_others("nobody else is there")


def test_errors_and_throttles_count_for_ten_seconds() -> None:
    breaker = limits(Breaker(error_share=0.5, throttled_share=0.5, least_answers=10))
    breaker.note(0, True, False, requests=9)
    assert reason(breaker) == ""  # too few to say anything
    breaker.note(STEP_NS, True, False, requests=1)
    assert reason(breaker, STEP_NS) == "10 of the last 10 requests failed that did not in the capture"
    breaker.note(2 * STEP_NS, False, True, requests=11)
    assert reason(breaker, 2 * STEP_NS) == "the target throttled 11 of the last 21 requests"
    breaker.note(3 * STEP_NS, False, False, requests=5)
    assert reason(breaker, 3 * STEP_NS) == ""
    later = WINDOW_NS + 2 * STEP_NS  # the first two steps are over
    assert reason(breaker, later) == "the target throttled 11 of the last 16 requests"


def test_refused_connections_and_a_replayer_that_is_behind_end_the_pass() -> None:
    breaker = limits(Breaker(refusals=3, lag_s=2))
    assert reason(breaker, refused=2, behind_ns=2 * S) == ""
    assert reason(breaker, refused=3) == (
        "3 connections in a row were refused, the last one by here:9092: no connection within 8 s"
    )
    assert reason(breaker, behind_ns=3 * S) == "the replayer is 3 s behind its own schedule"
