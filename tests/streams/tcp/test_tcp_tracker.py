"""The tracker keeps a bounded number of steps and spans, and loses no count."""

import numpy as np

from kdissect.jit.rows import dtype_of, integers_of
from kdissect.streams.tcp.step_fold import HIGHEST, KEYS, LOWEST, fold_steps
from kdissect.streams.tcp.tcp_tracker import STEP_NS, TcpTracker
from kdissect.streams.tcp.tracker_state import StepRow
from tests.streams.tcp.tcp_packets import CLIENT, SERVER, ack, data, followed, rows


def exchanges(seconds: int) -> list:
    """Return a request every second, answered after 5 ms."""
    packets = []
    for second in range(seconds):
        packets.append(data(1000 * second + 1, CLIENT, 10 * second, 10))
        packets.append(ack(1000 * second + 6, SERVER, 10 * (second + 1)))
    return packets


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


def test_folded_steps_keep_lowest_and_highest() -> None:
    steps = followed(exchanges(4)).steps().copy()
    lowest = steps["first_ns"].min()
    steps["step"] //= 1 << 40
    folded = steps[: fold_steps(steps)]
    to_server = folded[folded["direction"] == CLIENT]
    assert len(folded) == 2
    assert to_server["first_ns"].tolist() == [lowest]
    assert to_server["ack_min_ns"].tolist() == [5_000_000]
    assert to_server["ack_ns"].tolist() == [20_000_000]
    assert fold_steps(steps[:0]) == 0


def test_steps_of_many_directions_are_folded_as_groups_of_rows_are() -> None:
    chance = np.random.default_rng(1)
    steps = np.zeros(500, dtype_of(StepRow))
    integers_of(steps)[:] = chance.integers(0, 4, integers_of(steps).shape)
    steps["direction"] = chance.integers(0, 7, len(steps))
    steps["step"] = np.sort(chance.integers(0, 20, len(steps)))
    expected = {}
    for row in steps.tolist():
        expected.setdefault(row[:2], []).append(row)
    for row in steps[: fold_steps(steps)].tolist():
        rows = np.array(expected.pop(row[:2]))
        for name, value, column in zip(steps.dtype.names, row, rows.T, strict=True):
            if name in LOWEST:
                assert value == min(column[column > 0], default=0)
            elif name in HIGHEST:
                assert value == column.max()
            elif name not in KEYS:
                assert value == column.sum()
    assert not expected


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


def test_connections_are_told_apart() -> None:
    packets = rows([data(1, CLIENT, 0, 10), data(2, CLIENT, 0, 10), ack(3, SERVER, 10), ack(9, SERVER, 10)])
    tracker = TcpTracker()
    tracker.feed(packets, np.array([0, 1, 0, 1]), 2)
    tracker.close()
    _, directions = tracker.connections()
    assert directions["ack_ns"].tolist() == [2_000_000, 0, 7_000_000, 0]
