"""Due times at pace `think` count from the answer that a client waited for."""

from itertools import pairwise

import numpy as np

from kdissect.replay.engine.connection_queue import connection_queues
from kdissect.replay.engine.request_times import (
    LEAD_NS,
    LEAD_PER_CONNECTION_NS,
    RequestTimes,
)
from kdissect.replay.engine.schedule import Schedule
from kdissect.replay.load.analysis import load
from kdissect.replay.settings import Pace
from tests.helpers.paper_target import Script, settings

MS = 1_000_000
START = 1_000 * MS
LATER = 50 * MS


def test_a_request_is_due_behind_the_answer_that_its_client_waited_for() -> None:
    script = Script()
    answer = {"error_code": 0, "error_message": "", "node_id": 1, "host": "10.0.0.1", "port": 9092}
    for at_ms in (0, 30):  # answered after 10 ms, so the client thought for 20
        script.add(at_ms, 10, 1, {"key": "g", "key_type": 0}, answer, took_ms=10)
    items = load(script.capture(), script.shelf, settings(pace=Pace.THINK)).items
    times = RequestTimes(Schedule(Pace.THINK, 2.0, items[0].request.first_ns, 0), items, None)
    times.begin(START)
    assert times.due_ns(items[0]) == START
    assert items[1].anchor == 0
    assert times.due_ns(items[1]) is None
    times.note_end(0, START + LATER)
    assert times.due_ns(items[1]) == START + LATER + items[1].gap_ns // 2
    times.note_ends(np.array([0]), START + 2 * LATER)
    assert times.due_ns(items[1]) == START + 2 * LATER + items[1].gap_ns // 2


def test_a_client_thinks_for_what_is_left_of_a_pause() -> None:
    script = Script()
    answer = {"error_code": 0, "error_message": "", "node_id": 1, "host": "10.0.0.1", "port": 9092}
    for at_ms, took_ms in ((0, 10), (500, 10), (530, 200), (1_000, 10)):
        script.add(at_ms, 10, 1, {"key": "g", "key_type": 0}, answer, took_ms=took_ms)
    items = load(script.capture(), script.shelf, settings(pace=Pace.THINK)).items
    times = RequestTimes(Schedule(Pace.THINK, 2.0, items[0].request.first_ns, 0), items, 100 * MS)
    times.begin(START)
    thought_ms = []
    for before, item in pairwise(items):
        times.note_end(before.request.index, START)
        due_ns = times.due_ns(item)
        assert due_ns is not None
        thought_ms.append((due_ns - START) / MS)
    # The last pause is over when its client gets the answer.
    assert thought_ms == [(100 - 10) / 2, (30 - 10) / 2, 0]


def test_connections_that_begin_at_once_take_longer_to_open() -> None:
    script = Script()
    for connection in range(3):
        script.add(connection, 10, 1, {"key": "g", "key_type": 0}, connection=connection)
    script.add(400, 10, 1, {"key": "g", "key_type": 0}, connection=3)
    loaded = load(script.capture(), script.shelf, settings())
    queues = list(connection_queues(loaded.items, loaded.caps).values())
    first_ns = loaded.items[0].request.first_ns
    for pace, lead_ns in ((Pace.SCHEDULE, LEAD_NS + 3 * LEAD_PER_CONNECTION_NS), (Pace.ASAP, 0)):
        times = RequestTimes(Schedule(pace, 1.0, first_ns, 0), loaded.items, None)
        assert times.lead_ns(queues) == lead_ns
