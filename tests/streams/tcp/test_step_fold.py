"""Steps that became one are folded as groups of rows are."""

import numpy as np

from kdissect.jit.rows import dtype_of, integers_of
from kdissect.streams.tcp.step_fold import HIGHEST, KEYS, LOWEST, fold_steps
from kdissect.streams.tcp.tracker_state import StepRow
from tests.streams.tcp.tcp_packets import CLIENT, exchanges, followed


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
