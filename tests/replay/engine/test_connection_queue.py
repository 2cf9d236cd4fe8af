"""Captured connections with their requests in order, and why their heads are late."""

from __future__ import annotations

from kdissect.replay.engine.connection_queue import ConnectionQueue, connection_queues
from kdissect.replay.load.analysis import load
from tests.helpers.paper_target import Script, settings


def test_every_request_is_in_the_queue_of_its_connection() -> None:
    script = Script()
    for number in range(7):
        script.add(number, 10, 1, {"key": "g", "key_type": 0}, connection=number % 3, in_flight=2)
    loaded = load(script.capture(), script.shelf, settings())
    queues = connection_queues(loaded.items, loaded.caps)
    indices = {number: [item.request.index for item in queue.waiting] for number, queue in queues.items()}
    assert indices == {0: [0, 3, 6], 1: [1, 4], 2: [2, 5]}
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
