"""Captured connections with their requests in order: why heads are late, and when queues are looked at."""

from __future__ import annotations

from random import Random

import numpy as np

from kdissect.replay.engine.connection_queue import ConnectionQueue, TimerQueue, connection_queues
from kdissect.replay.load.analysis import load
from tests.helpers.paper_target import Script, settings


def test_every_request_is_in_the_queue_of_its_connection() -> None:
    script = Script()
    for number in range(7):
        script.add(number, 10, 1, {"key": "g", "key_type": 0}, connection=number % 3, in_flight=2)
    loaded = load(script.capture(), script.shelf, settings())
    queues = connection_queues(loaded.items, loaded.caps)
    indices = {number: queue.waiting.places.tolist() for number, queue in queues.items()}
    assert indices == {0: [0, 3, 6], 1: [1, 4], 2: [2, 5]}
    assert [queues[1].waiting.popleft().request.index, len(queues[1].waiting)] == [1, 1]
    assert (queues[1].waiting.drop_all().tolist(), len(queues[1].waiting)) == ([4], 0)
    assert {queue.most_in_flight for queue in queues.values()} == {2}


def test_what_delays_the_head_delays_those_behind_it_that_were_due() -> None:
    queue = ConnectionQueue(1, 1)
    queue.block("rate cap")
    queue.begin_head(10, now_ns=100)
    assert queue.cause == "rate cap"
    queue.cause = ""
    queue.begin_head(99, now_ns=101)  # was due while the head waited
    assert queue.cause == "rate cap"
    queue.cause = ""
    queue.begin_head(100, now_ns=102)
    assert queue.cause == ""


def test_queues_come_in_their_order_and_never_before_their_time() -> None:
    for seed in range(50):
        chance = Random(seed)
        queues = [ConnectionQueue(number, 1) for number in range(5)]
        planned = [(chance.randrange(100), chance.choice(queues)) for _ in range(60)]
        times_ns = np.array([time for time, _ in planned])
        numbers = np.array([queue.connection for _, queue in planned])
        order = np.argsort(times_ns, kind="stable")
        cuts = sorted(chance.randrange(61) for _ in range(chance.randrange(4)))
        parts = [(times_ns[part], numbers[part]) for part in np.split(order, cuts)]  # some have no timer
        timers = TimerQueue(parts, queues)
        timers.start_ns = 1000
        wanted = sorted([1000 + time for time, _ in planned])
        times: list[int] = []
        now = 1000
        while timers.next_ns is not None:
            assert timers.next_ns == wanted[len(times)]
            now = max(now, timers.next_ns) + chance.randrange(10)
            found = timers.take(now, 4)
            assert len(found) <= 4
            times += wanted[len(times) : len(times) + len(found)]
            assert times[-1] <= now
        assert times == wanted


def test_alarms_come_beside_what_is_planned_once_each() -> None:
    early, late = ConnectionQueue(1, 1), ConnectionQueue(2, 1)
    timers = TimerQueue([(np.array([50, 90]), np.array([0, 1]))], [early, late])
    timers.add_alarm(late, 20)
    timers.add_alarm(late, 20)
    assert timers.next_ns == 20
    assert timers.take(19, 9) == []
    assert timers.take(20, 9) == [late]
    assert timers.next_ns == 50
    timers.add_alarm(late, 30)
    assert timers.take(60, 1) == [early]
    assert timers.take(60, 1) == [late]
    timers.add_alarm(early, 70)
    timers.clear()
    assert timers.next_ns is None
    assert timers.take(100, 9) == []
