"""Follow TCP in a set of connections from split to split, and keep what was found until the end.

A `TcpTracker` gets the descriptors of each split with the row of their connection, and returns finished steps
and spans as arrays. Its memory is bounded: with more than STEPS_KEPT steps it doubles the length of a step
and adds them up; beyond SPANS_KEPT spans it keeps the longest.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Int64s
from kdissect.jit.rows import (
    Records,
    array_of,
    dtype_of,
    integers_of,
    join_records,
    new_table,
    take_records,
)
from kdissect.streams.carry.split_numbers import SplitNumbers, resumed_packets
from kdissect.streams.carry.state_value import both_directions
from kdissect.streams.carry.value_bytes import CarriedStateError, Value
from kdissect.streams.tcp.follow import finish_tcp, follow
from kdissect.streams.tcp.step_fold import fold_steps
from kdissect.streams.tcp.tracker_state import (
    SpanRow,
    StepRow,
    TcpConnectionRow,
    TcpDirectionRow,
    new_tcp_state,
    with_tcp_connections,
)

STEP_NS = 1_000_000_000
STEPS_KEPT, SPANS_KEPT = 1 << 18, 1 << 16

PACKETS = ("waiting_packet", "window_packet")  # of a direction
CARRIED = ("connections", "directions", "current", "steps", "spans")
LAYOUT = ";".join(str(dtype_of(kind).descr) for kind in (TcpConnectionRow, TcpDirectionRow, StepRow, SpanRow))


class TcpTracker:
    """Events of TCP in the connections of a task."""

    def __init__(
        self, step_ns: int = STEP_NS, steps_kept: int = STEPS_KEPT, spans_kept: int = SPANS_KEPT
    ) -> None:
        self._state = new_tcp_state(step_ns)
        self._steps_kept, self._spans_kept = steps_kept, spans_kept
        self._steps = array_of(new_table(StepRow, 0))  # room for more than are there
        self._step_count = 0
        self._spans: list[Records] = []
        self._count = 0

    def feed(self, packets: Int64s, connection_of: Int64s, count: int) -> None:
        """Follow the packets of a split, a descriptor table; `count` connections are known by now."""
        rows = np.ascontiguousarray(packets.T)
        self._state = with_tcp_connections(self._state, count)
        self._count = count
        done = follow(self._state, rows, connection_of, 0)
        while done < len(connection_of):
            self._collect()
            done = follow(self._state, rows, connection_of, done)

    def close(self) -> None:
        """End all connections."""
        self._end(0, self._count)
        self._collect()

    def end(self, rows: Int64s) -> None:
        """End some connections."""
        for row in rows[rows < self._count].tolist():
            self._end(row, row + 1)
        self._collect()

    def _end(self, first: int, stop: int) -> None:
        done = finish_tcp(self._state, first, stop)
        while done < stop:
            self._collect()
            done = finish_tcp(self._state, done, stop)

    def drain(self) -> None:
        """Forget the steps and spans that are finished."""
        self._collect()
        self._take_steps()
        self._spans = []

    def carried(self, rows: Int64s, numbers: SplitNumbers) -> Value:
        """Return what is known of some connections, without what `drain` has forgotten."""
        self._collect()
        rows = rows[rows < self._count]
        both = both_directions(rows)
        directions = array_of(self._state.directions)[both]
        for name in PACKETS:
            directions[name] = numbers.carried(directions[name])
        current, steps, spans = array_of(self._state.current)[both], self.steps(), self.spans()
        number_of = np.full(2 * self._count, -1)
        number_of[both] = np.arange(len(both))
        current["direction"] = np.arange(len(both))
        kept = []
        for results in (steps, spans):
            mine = results[number_of[results["direction"]] >= 0]
            mine["direction"] = number_of[mine["direction"]]
            kept.append(mine)
        kept[1]["packet"] = numbers.carried(kept[1]["packet"])
        tables = (array_of(self._state.connections)[rows], directions, current, *kept)
        return {
            "layout": LAYOUT,
            "step_ns": int(self.step_ns),
            **{name: integers_of(table) for name, table in zip(CARRIED, tables, strict=True)},
        }

    def resume(self, value: Value, first_split: int) -> None:
        """Go on with what `carried` returned. Raise CarriedStateError if it is of another version."""
        if value["layout"] != LAYOUT:
            raise CarriedStateError("the carried state was written by another version of kdissect")
        self._count = len(value["connections"])
        self._state = with_tcp_connections(new_tcp_state(value["step_ns"]), self._count)
        state = self._state
        tables = (array_of(state.connections), array_of(state.directions), array_of(state.current))
        for name, table in zip(CARRIED, tables, strict=False):
            integers_of(table)[: len(value[name])] = value[name]
        directions = array_of(state.directions)
        for name in PACKETS:
            directions[name] = resumed_packets(directions[name], first_split)
        steps = array_of(new_table(StepRow, len(value["steps"])))
        spans = array_of(new_table(SpanRow, len(value["spans"])))
        integers_of(steps)[:], integers_of(spans)[:] = value["steps"], value["spans"]
        spans["packet"] = resumed_packets(spans["packet"], first_split)
        self._steps, self._step_count, self._spans = steps, len(steps), [spans]

    def steps(self) -> Records:
        """Return the steps of all directions (rows of StepRow)."""
        return join_records([self._steps[: self._step_count]])

    def _take_steps(self) -> Records:
        """Return the steps of all directions, and forget them."""
        steps, self._steps = self._steps[: self._step_count], self._steps[:0].copy()
        self._step_count = 0
        return steps

    def _add_steps(self, steps: Records) -> None:
        """Add finished steps, in memory that stays when they are folded.

        All parts together became new memory, 48 MB of it, whenever steps grew longer, which took 100,000
        connections 390 ns an exchange. Room that is never written to takes no memory.
        """
        count = self._step_count + len(steps)
        if count > len(self._steps):
            usual = self._steps_kept + len(self._state.steps)
            grown = np.empty(max(count, 2 * len(self._steps), usual), dtype_of(StepRow))
            grown[: self._step_count] = self._steps[: self._step_count]
            self._steps = grown
        integers_of(self._steps)[self._step_count : count] = integers_of(steps)
        self._step_count = count

    def release_steps(self, most: int) -> Iterator[Records]:
        """Yield the steps in parts of at most so many rows, and forget them."""
        steps = self._take_steps()
        for start in range(0, len(steps), most):
            yield steps[start : start + most]

    def spans(self) -> Records:
        """Return the spans of all directions (rows of SpanRow)."""
        return join_records(self._spans) if self._spans else array_of(self._state.spans)[:0]

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
        self._add_steps(array_of(self._state.steps)[: counters.steps])
        self._spans.append(join_records([array_of(self._state.spans)[: counters.spans]]))
        counters.steps = counters.spans = 0
        while self._step_count > self._steps_kept:
            before = self._step_count
            self._lengthen_steps()
            if self._step_count > before // 2:
                break
        if sum(map(len, self._spans)) > self._spans_kept:
            spans = join_records(self._spans)
            longest = lowest_places(spans["begin_ns"] - spans["end_ns"], self._spans_kept // 2)
            self._spans = [take_records(spans, longest)]

    def _lengthen_steps(self) -> None:
        self._state = self._state._replace(length_ns=2 * self._state.length_ns)
        steps = self._steps[: self._step_count]
        steps["step"] //= 2
        self._step_count = fold_steps(steps)
        for rows in (array_of(self._state.directions), array_of(self._state.current)):
            rows["step"] //= 2


def lowest_places(values: Int64s, count: int) -> Int64s:
    """Return the places of so many of the lowest values, ascending; of equal ones the first.

    There are more values. To sort all of them takes ten times as long.
    """
    bound = np.partition(values, count - 1)[count - 1]
    is_low = values < bound
    is_low[np.flatnonzero(values == bound)[: count - np.count_nonzero(is_low)]] = True
    return np.flatnonzero(is_low)
