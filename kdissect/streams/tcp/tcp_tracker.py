"""Follow TCP in a set of connections from split to split, and keep what was found until the end.

A `TcpTracker` gets the descriptors of each split with the row of their connection, and returns finished steps
and spans as arrays. What it keeps is bounded: with more than STEPS_KEPT steps it doubles the length of a step
and adds them up; beyond SPANS_KEPT spans it keeps the longest.
"""

import numpy as np

from kdissect.jit.rows import Records, array_of
from kdissect.streams.flow_state import Int64s
from kdissect.streams.tcp.follow import finish_tcp, follow
from kdissect.streams.tcp.tracker_state import new_tcp_state, with_tcp_connections

STEP_NS = 1_000_000_000
STEPS_KEPT, SPANS_KEPT = 1 << 18, 1 << 16

LOWEST = ("first_ns", "ack_min_ns", "reply_min_ns", "repeated_first_ns")  # 0: there is none
HIGHEST = ("last_ns", "ack_max_ns", "reply_max_ns", "repeated_last_ns", "largest_acked")
NEVER = np.iinfo(np.int64).max


class TcpTracker:
    """What TCP did in the connections of a task."""

    def __init__(
        self, step_ns: int = STEP_NS, steps_kept: int = STEPS_KEPT, spans_kept: int = SPANS_KEPT
    ) -> None:
        self._state = new_tcp_state(step_ns)
        self._steps_kept, self._spans_kept = steps_kept, spans_kept
        self._steps: list[Records] = []
        self._spans: list[Records] = []
        self._count = 0

    def feed(self, segments: Int64s, connection_of: Int64s, count: int) -> None:
        """Follow the packets of a split; `count` connections are known by now."""
        self._state = with_tcp_connections(self._state, count)
        self._count = count
        done = follow(self._state, segments, connection_of, 0)
        while done < len(connection_of):
            self._collect()
            done = follow(self._state, segments, connection_of, done)

    def close(self) -> None:
        """End all connections."""
        done = finish_tcp(self._state, 0, self._count)
        while done < self._count:
            self._collect()
            done = finish_tcp(self._state, done, self._count)
        self._collect()

    def steps(self) -> Records:
        """Return the steps of all directions (rows of StepRow)."""
        return np.concatenate(self._steps) if self._steps else array_of(self._state.steps)[:0]

    def spans(self) -> Records:
        """Return the spans of all directions (rows of SpanRow)."""
        return np.concatenate(self._spans) if self._spans else array_of(self._state.spans)[:0]

    def connections(self) -> tuple[Records, Records]:
        """Return the rows of connections and directions."""
        return (
            array_of(self._state.connections)[: self._count],
            array_of(self._state.directions)[: 2 * self._count],
        )

    @property
    def step_ns(self) -> int:
        """Return the length of a step of time."""
        return self._state.length_ns

    def _collect(self) -> None:
        """Move the results out of the state, and make them fewer if they are too many."""
        counters = self._state.counters
        self._steps.append(array_of(self._state.steps)[: counters.steps].copy())
        self._spans.append(array_of(self._state.spans)[: counters.spans].copy())
        counters.steps = counters.spans = 0
        while sum(map(len, self._steps)) > self._steps_kept:
            before = sum(map(len, self._steps))
            self._lengthen_steps()
            if sum(map(len, self._steps)) > before // 2:
                break
        if sum(map(len, self._spans)) > self._spans_kept:
            spans = np.concatenate(self._spans)
            longest = np.argsort(spans["begin_ns"] - spans["end_ns"], kind="stable")
            self._spans = [spans[np.sort(longest[: self._spans_kept // 2])]]

    def _lengthen_steps(self) -> None:
        self._state = self._state._replace(length_ns=2 * self._state.length_ns)
        steps = np.concatenate(self._steps)
        steps["step"] //= 2
        self._steps = [merge_steps(steps)]
        for rows in (array_of(self._state.directions), array_of(self._state.current)):
            rows["step"] //= 2


def merge_steps(steps: Records) -> Records:
    """Return one row for each direction and step."""
    order = np.lexsort((steps["step"], steps["direction"]))
    steps = steps[order]
    is_first = (
        np.r_[True, (np.diff(steps["direction"]) != 0) | (np.diff(steps["step"]) != 0)]
        if len(steps)
        else np.zeros(0, np.bool_)
    )
    starts = np.flatnonzero(is_first)
    if len(starts) == len(steps):
        return steps
    merged = steps[starts]
    for name in steps.dtype.names or ():
        values = steps[name]
        if name in LOWEST:
            lowest = np.minimum.reduceat(np.where(values == 0, NEVER, values), starts)
            merged[name] = np.where(lowest == NEVER, 0, lowest)
        elif name in HIGHEST:
            merged[name] = np.maximum.reduceat(values, starts)
        elif name not in ("direction", "step"):
            merged[name] = np.add.reduceat(values, starts)
    return merged
