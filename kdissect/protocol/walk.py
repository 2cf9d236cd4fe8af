"""Walk messages: run each message's program over its bytes and write what it keeps into columns.

This is the one compiled loop of the columnar reader. In come an arena of bytes, where in it the messages stand, and the
programs of `program`; out come a row per message, per topic-partition and per node, and of every message the first
fault. No object is made per message, and nothing is trusted: every byte is known to be there before it is read, every
count fits the bytes left before it is looped over, a tagged field must fill its size and a message its frame.
The plain codec reads by the same rules, and the two must agree on what is a fault and where it starts.

A capture may have lost the end of a frame: then the bytes end at `stop`, before the frame does at `frame_stop`. Counts and
lengths are held against the frame, reading against the bytes, so whatever stands before the loss is still read.
"""

from typing import Any

import numpy as np

from kdissect.kernel import jit
from kdissect.protocol.program import Op
from kdissect.protocol.record_sets import WIDTH as SUMMARY_WIDTH
from kdissect.protocol.registers import MESSAGE_WIDTH
from kdissect.protocol.state import (
    AT,
    DEPTH,
    ERROR_CODE,
    ERROR_COUNT,
    ERROR_SEEN,
    FAULT,
    FAULT_AT,
    FIRST_ROW,
    LIMIT,
    LOOP_WIDTH,
    MESSAGE,
    MESSAGE_BITS,
    NODES,
    PARTITION_BIT,
    PRESENT,
    REGISTERS,
    ROWS,
    STATE_WIDTH,
    STOP,
    TOPIC_BITS,
    TOPIC_ROW,
    VERDICT_ERROR_CODE,
    VERDICT_ERROR_COUNT,
    VERDICT_ERROR_SEEN,
    VERDICT_FAULT,
    VERDICT_FAULT_AT,
    VERDICT_FAULT_ROW,
)
from kdissect.protocol.steps import (
    array,
    emit_node,
    emit_row,
    end,
    end_tag,
    end_topic,
    enter,
    error,
    fallback,
    fixed,
    integer,
    next_element,
    optional,
    records,
    sized,
    skip,
    step_over,
    tag,
    tags,
)

SKIP, INTEGER, ERROR, FIXED, SIZED = (int(op) for op in (Op.SKIP, Op.INTEGER, Op.ERROR, Op.FIXED, Op.SIZED))
RECORDS, ARRAY, NEXT, STEP = (int(op) for op in (Op.RECORDS, Op.ARRAY, Op.NEXT, Op.STEP))
OPTION, TAGS, TAG, END_TAG = (int(op) for op in (Op.OPTION, Op.TAGS, Op.TAG, Op.END_TAG))
ENTER, ROW, TOPIC, NODE, FALLBACK = (int(op) for op in (Op.ENTER, Op.ROW, Op.TOPIC, Op.NODE, Op.FALLBACK))


@jit
def walk(
    table: Any,
    entries: Any,
    arena: Any,
    spans: Any,
    first: int,
    used: Any,
    messages: Any,
    message_present: Any,
    verdicts: Any,
    rows: Any,
    row_present: Any,
    row_message: Any,
    nodes: Any,
    node_message: Any,
) -> int:
    """Walk the messages from `first` on; give the first that is not done because its rows or nodes do not fit.

    entries[i] is the first row of message i's program in the table, negative if there is none; spans[i] is its start,
    stop and frame stop in the arena. used[0] rows and used[1] nodes are written; used[2:4] say how many are wanted.
    """
    state = np.zeros(STATE_WIDTH, np.int64)
    loops = np.zeros((DEPTH, LOOP_WIDTH), np.int64)
    registers = np.zeros(REGISTERS, np.int64)
    summary = np.zeros(SUMMARY_WIDTH, np.int64)
    state[ROWS] = used[0]
    state[NODES] = used[1]
    for message in range(first, len(entries)):
        if entries[message] < 0:
            continue
        program = table[entries[message] :]
        _begin(state, message, spans)
        row = at_row = 0
        while row >= 0:
            at_row = row
            numbers = program[row]
            op = numbers[0]
            if op == SKIP:
                row = skip(state, row, np.int64(numbers[1]))
            elif op == SIZED:
                row = sized(arena, numbers, row, state, registers)
            elif op == INTEGER:
                row = integer(arena, numbers, row, state, registers)
            elif op == NEXT:
                row = next_element(numbers, row, loops)
            elif op == TAGS:
                row = tags(arena, numbers, row, state, loops)
            elif op == ARRAY:
                row = array(arena, numbers, row, state, loops)
            elif op == ERROR:
                row = error(arena, numbers, row, state, registers)
            elif op == ENTER:
                row = enter(numbers, row, state)
            elif op == ROW:
                row = emit_row(row, state, registers, summary, rows, row_present, row_message)
            elif op == TOPIC:
                row = end_topic(row, state, registers, summary, rows, row_present, row_message)
            elif op == RECORDS:
                row = records(arena, numbers, row, state, registers, summary)
            elif op == STEP:
                row = step_over(arena, numbers, row, state)
            elif op == FIXED:
                row = fixed(numbers, row, state, registers)
            elif op == TAG:
                row = tag(arena, program, row, state, loops)
            elif op == END_TAG:
                row = end_tag(numbers, state, loops)
            elif op == OPTION:
                row = optional(arena, numbers, row, state)
            elif op == NODE:
                row = emit_node(row, state, registers, nodes, node_message)
            elif op == FALLBACK:
                row = fallback(arena, numbers, row, state)
            else:
                row = end(state)
        if state[FAULT]:
            _rescue(state, registers, summary, rows, row_present, row_message)
        used[2] = state[ROWS]
        used[3] = state[NODES]
        if state[ROWS] > len(rows) or state[NODES] > len(nodes):
            return message
        used[0] = state[ROWS]
        used[1] = state[NODES]
        _finish(
            state,
            registers,
            spans[message, 0],
            entries[message] + at_row,
            messages[message],
            verdicts[message],
        )
        message_present[message] = state[PRESENT] & MESSAGE_BITS
    return len(entries)


@jit
def _begin(state: Any, message: int, spans: Any) -> None:
    state[MESSAGE] = message
    state[AT] = spans[message, 0]
    state[STOP] = spans[message, 1]
    state[LIMIT] = spans[message, 2]
    state[FIRST_ROW] = state[ROWS]
    state[TOPIC_ROW] = state[ROWS]
    for index in (PRESENT, ERROR_CODE, ERROR_COUNT, ERROR_SEEN, FAULT):
        state[index] = 0


@jit
def _rescue(state: Any, registers: Any, summary: Any, rows: Any, row_present: Any, row_message: Any) -> None:
    """After a fault: keep the partition, or the topic without partitions, that was being read."""
    fault, fault_at = state[FAULT], state[FAULT_AT]
    in_topic = state[PRESENT] & TOPIC_BITS and state[ROWS] == state[TOPIC_ROW]
    if state[PRESENT] & PARTITION_BIT or in_topic:
        emit_row(0, state, registers, summary, rows, row_present, row_message)
    state[FAULT], state[FAULT_AT] = fault, fault_at


@jit
def _finish(state: Any, registers: Any, start: int, row: int, message: Any, verdict: Any) -> None:
    for index in range(MESSAGE_WIDTH):
        message[index] = registers[index]
    verdict[VERDICT_ERROR_CODE] = state[ERROR_CODE]
    verdict[VERDICT_ERROR_COUNT] = state[ERROR_COUNT]
    verdict[VERDICT_ERROR_SEEN] = state[ERROR_SEEN]
    verdict[VERDICT_FAULT] = state[FAULT]
    verdict[VERDICT_FAULT_AT] = state[FAULT_AT] - start if state[FAULT] else -1
    verdict[VERDICT_FAULT_ROW] = row if state[FAULT] else -1
