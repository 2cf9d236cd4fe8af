"""Steps of TCP that became the same step, since a step is twice as long now: one row takes the place of two.

In come rows of StepRow in the order in which they were finished, out come fewer of them, in the same memory.
The steps of a direction are finished one after the other, so a row is folded into the row before it of the
same direction, if both are of one step. Sorting a quarter of a million rows and adding up each column took
0.2 s and three times their memory. Two rows of one step may stay if a clock stepped back: whoever reads steps
adds them up anyway.
"""

import numpy as np

from kdissect.array_types import Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.rows import Records, dtype_of, integers_of
from kdissect.streams.tcp.tracker_state import StepRow

LOWEST = ("first_ns", "ack_min_ns", "reply_min_ns", "repeated_first_ns")  # 0: there is none
HIGHEST = ("last_ns", "ack_max_ns", "reply_max_ns", "repeated_last_ns", "largest_acked")
KEYS = ("direction", "step")
DIRECTION, STEP = 0, 1  # columns
KEEP, ADD, LOWER, RAISE = range(4)  # what becomes of a column


def _folds() -> Int64s:
    """Return what becomes of each column of StepRow."""
    kinds = dict.fromkeys(KEYS, KEEP) | dict.fromkeys(LOWEST, LOWER) | dict.fromkeys(HIGHEST, RAISE)
    return np.array([kinds.get(name, ADD) for name in dtype_of(StepRow).names or ()], np.int64)


FOLDS = _folds()


@jit_flat
def fold_rows(rows: Int64s, folds: Int64s, latest: Int64s) -> int:
    """Fold rows (shape: rows, columns of StepRow) in place. Return how many are left, at the front.

    `latest` is -1 for each direction.
    """
    kept = 0
    for row in range(len(rows)):
        direction = rows[row, DIRECTION]
        into = latest[direction]
        if into >= 0 and rows[into, STEP] == rows[row, STEP]:
            for column in range(len(folds)):
                value = rows[row, column]
                if folds[column] == ADD:
                    rows[into, column] += value
                elif folds[column] == RAISE:
                    rows[into, column] = max(rows[into, column], value)
                elif folds[column] == LOWER and value > 0 and not 0 < rows[into, column] <= value:
                    rows[into, column] = value
        else:
            latest[direction] = kept
            if kept < row:
                for column in range(len(folds)):
                    rows[kept, column] = rows[row, column]
            kept += 1
    return kept


def fold_steps(steps: Records) -> int:
    """Leave one row for each direction and step, at the front of `steps`. Return how many are left."""
    directions = int(steps["direction"].max()) + 1 if len(steps) else 0
    return int(fold_rows(integers_of(steps), FOLDS, np.full(directions, -1, np.int64)))


def call_all() -> None:
    """Call every loop once, so that it is compiled and kept."""
    fold_steps(np.zeros(1, dtype_of(StepRow)))
