"""Compiled loops that count calls by class: what CALLS tells of exchanges.

Two loops go over all columns of exchanges once, and add each call to the row of its class. Loops over single
columns, behind masks and other passes of NumPy, took 22 ns an exchange, and these take 10.
"""

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.many_rows import read_only
from kdissect.jit.rows import Row, RowTable, array_of, new_table, row_type
from kdissect.report.aggregate.group_loops import HIGHEST, LOWEST
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.aggregate.sound_latency import MAX_LATENCY_NS
from kdissect.tables.array_batch import number_column
from kdissect.tables.coded_text import NumberColumn
from kdissect.tables.column import INT64
from kdissect.tables.column_values import every_row


@row_type
class CallCounts(Row):
    """Counts of the calls of one class; the fields are columns of CALLS."""

    exchanges: int
    error_responses: int
    errors: int
    faults: int
    request_bytes: int
    response_bytes: int
    throttled: int
    throttle_ms: int
    pipelined: int
    acks_none: int
    acks_leader: int
    acks_all: int
    timed: int
    untimed: int
    latency_ns: int
    transfer_ns: int
    first_ns: int
    latency_min_ns: int
    last_ns: int
    latency_max_ns: int
    transfer_max_ns: int
    throttle_max_ms: int
    in_flight_max: int


@jit_flat
def add_up_calls(
    of: Int64s,
    request_bytes: Int64s,
    response_bytes: Int64s,
    error_code: Int64s,
    error_count: Int64s,
    has_fault: Bools,
    throttle_ms: Int64s,
    in_flight: Int64s,
    acks: Int64s,
    has_acks: Bools,
    counts: RowTable[CallCounts],
) -> None:
    """Add the calls of each class, and all that is no time; `counts` are those of `new_counts`."""
    for row in range(len(of)):
        number = of[row]
        counts[number].exchanges += 1
        counts[number].request_bytes += int(request_bytes[row])
        counts[number].response_bytes += int(response_bytes[row])
        counts[number].errors += int(error_count[row])
        counts[number].in_flight_max = max(counts[number].in_flight_max, int(in_flight[row]))
        if in_flight[row] > 1:
            counts[number].pipelined += 1
        if error_code[row] != 0:
            counts[number].error_responses += 1
        if has_fault[row]:
            counts[number].faults += 1
        throttle = max(int(throttle_ms[row]), 0)
        counts[number].throttle_max_ms = max(counts[number].throttle_max_ms, throttle)
        if throttle > 0:
            counts[number].throttled += 1
            counts[number].throttle_ms += throttle
        if has_acks[row]:
            if acks[row] == 0:
                counts[number].acks_none += 1
            elif acks[row] == 1:
                counts[number].acks_leader += 1
            elif acks[row] == -1:
                counts[number].acks_all += 1


@jit_flat
def add_up_times(
    of: Int64s,
    latency: Int64s,
    sound: Bools,
    has_latency: Bools,
    first_ns: Int64s,
    last_ns: Int64s,
    has_request: Bools,
    has_response: Bools,
    response_first_ns: Int64s,
    response_last_ns: Int64s,
    counts: RowTable[CallCounts],
) -> None:
    """Add the times of the calls of each class; `counts` are those of `new_counts`."""
    for row in range(len(of)):
        number = of[row]
        if sound[row]:
            counts[number].timed += 1
            counts[number].latency_ns += int(latency[row])
            counts[number].latency_min_ns = min(counts[number].latency_min_ns, int(latency[row]))
            counts[number].latency_max_ns = max(counts[number].latency_max_ns, int(latency[row]))
        elif has_latency[row]:
            counts[number].untimed += 1
        transfer = int(response_last_ns[row] - response_first_ns[row])
        if has_response[row] and 0 <= transfer < MAX_LATENCY_NS:
            counts[number].transfer_ns += transfer
            counts[number].transfer_max_ns = max(counts[number].transfer_max_ns, transfer)
        if has_request[row] or has_response[row]:
            counts[number].first_ns = min(counts[number].first_ns, int(first_ns[row]))
            counts[number].last_ns = max(counts[number].last_ns, int(last_ns[row]))


def new_counts(count: int) -> RowTable[CallCounts]:
    """Return counts of nothing for a number of classes."""
    counts = new_table(CallCounts, count)
    for names, nothing in ((CALLS.lowest, HIGHEST), (CALLS.highest, LOWEST)):
        for name in names:
            array_of(counts)[name] = nothing
    return counts


def count_columns(counts: RowTable[CallCounts]) -> dict[str, NumberColumn]:
    """Return counts as columns of CALLS; the lowest and highest of no numbers are null."""
    every, columns = every_row(len(counts)), {}
    for name in (*CALLS.sums, *CALLS.lowest, *CALLS.highest):
        values = array_of(counts)[name].copy()
        columns[name] = NumberColumn(values, every, INT64)
    for names, nothing in ((CALLS.lowest, HIGHEST), (CALLS.highest, LOWEST)):
        for name in names:
            values = columns[name].values
            columns[name] = number_column(values, values != nothing, INT64)
    return columns


def call_all() -> None:
    """Call every loop once, so that it is compiled and kept."""
    numbers, mask = np.zeros(1, np.int64), np.zeros(1, bool)
    none, no = read_only(numbers), read_only(mask)
    counts = new_counts(1)
    add_up_calls(none, none, none, none, none, no, none, none, none, no, counts)
    add_up_times(none, none, no, no, none, none, no, no, none, none, counts)
