"""The tracker keeps a bounded number of steps and spans, and loses no count."""

import numpy as np

from kdissect.streams.tcp.tcp_tracker import STEP_NS, TcpTracker, lowest_places
from tests.streams.tcp.tcp_packets import CLIENT, SERVER, ack, data, exchanges, followed, rows


def test_too_many_steps_become_longer_ones() -> None:
    packets = exchanges(3000)
    every_second, fewer = followed(packets), followed(packets, steps_kept=1000)
    assert every_second.step_ns == STEP_NS
    assert fewer.step_ns > STEP_NS
    assert len(every_second.steps()) == 6000
    assert len(fewer.steps()) <= 3000
    for name in ("segments", "bytes", "ack_count", "ack_ns"):
        assert fewer.steps()[name].sum() == every_second.steps()[name].sum()
    assert fewer.steps()["ack_max_ns"].max() == 5_000_000


def test_steps_are_released_in_parts() -> None:
    tracker = followed(exchanges(50))
    steps = tracker.steps().tolist()
    parts = list(tracker.release_steps(30))
    assert [len(part) for part in parts] == [30, 30, 30, 10]
    assert [row for part in parts for row in part.tolist()] == steps
    assert len(tracker.steps()) == 0


def test_the_longest_of_too_many_spans_stay() -> None:
    packets = []
    for number in range(3000):
        ms, position = 10_000 * number, 10 * number
        packets += [data(ms, CLIENT, position, 10), data(ms + 300, CLIENT, position, 10)]
        packets.append(ack(ms + 400 + number, SERVER, position + 10))
    spans = followed(packets, spans_kept=1000).spans()
    lasted = spans["end_ns"] - spans["begin_ns"]
    assert 500 <= len(spans) <= 1500
    assert lasted.max() == 3399 * 10**6


def test_the_lowest_places_are_those_of_a_stable_sort() -> None:
    random = np.random.default_rng(3)
    for highest in (1, 4, 1000):
        values = random.integers(0, highest, 200)
        for count in (1, 60, 199):
            expected = np.sort(np.argsort(values, kind="stable")[:count])
            assert lowest_places(values, count).tolist() == expected.tolist()


def test_connections_are_told_apart() -> None:
    packets = rows([data(1, CLIENT, 0, 10), data(2, CLIENT, 0, 10), ack(3, SERVER, 10), ack(9, SERVER, 10)])
    tracker = TcpTracker()
    tracker.feed(packets, np.array([0, 1, 0, 1]), 2)
    tracker.close()
    _, directions = tracker.connections()
    assert directions["ack_ns"].tolist() == [2_000_000, 0, 7_000_000, 0]
