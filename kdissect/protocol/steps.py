"""The operations of a walk, one kernel each: read or check one thing, move on, give the next program row.

`program.Op` says what the numbers in a row mean. When the bytes are wrong an operation gives -1 and notes the fault: what
is wrong, and the first byte of the field. `state` is numbered in `state`, `registers` in `registers`.
"""

from typing import Any

import numpy as np

from kdissect.kernel import jit
from kdissect.protocol.integers import ENDS_EARLY as VARINT_ENDS
from kdissect.protocol.integers import int8_at, int16_at, int32_at, int64_at, uint16_at, uvarint_at
from kdissect.protocol.record_sets import MAGIC, summarise
from kdissect.protocol.record_sets import PRODUCER_EPOCH as SUMMARY_EPOCH
from kdissect.protocol.record_sets import PRODUCER_ID as SUMMARY_PRODUCER
from kdissect.protocol.registers import BROKER_WIDTH, ROW_VALUES, ROW_WIDTH
from kdissect.protocol.state import (
    AT,
    COUNT,
    CUT,
    ENDS_EARLY,
    ERROR_CODE,
    ERROR_COUNT,
    ERROR_SEEN,
    FAULT,
    FAULT_AT,
    FIRST_ROW,
    LAST_TAG,
    LEFT,
    LEFT_OVER,
    LIMIT,
    MESSAGE,
    MOST_ROWS,
    NEGATIVE,
    NODE_BIT,
    NODE_FIRST,
    NODES,
    OPTION,
    OUTER_LIMIT,
    PARTITION_BIT,
    PRESENT,
    PRODUCER_BITS,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS_BIT,
    ROW_BITS,
    ROW_FIRST,
    ROWS,
    STOP,
    TAG_ORDER,
    TAG_SIZE,
    TOO_MANY,
    TOPIC_BITS,
    TOPIC_ROW,
    VALUE_START,
    VARINT,
)

NULL, BAD_SIZE = -1, -2
SMALLEST_TAGGED = 2  # a tag and a size
ABSENT_STRUCT, PRESENT_STRUCT = -1, 1
UNSUPPORTED_VERSION = 35


@jit
def _fault(state: Any, reason: int, at: int) -> Any:
    state[FAULT] = reason
    state[FAULT_AT] = at
    return -1


@jit
def _short(state: Any, needed: int, at: int) -> Any:
    """Note that `needed` bytes from state[AT] are not all there, for the field that starts at `at`."""
    return _fault(state, CUT if state[AT] + needed <= state[LIMIT] else ENDS_EARLY, at)


@jit
def _has(state: Any, size: int) -> Any:
    return bool(state[AT] + size <= min(state[STOP], state[LIMIT]))


@jit
def _read_varint(arena: Any, state: Any) -> Any:
    """Read a varint; -1 after a fault."""
    at = state[AT]
    value, behind = uvarint_at(arena, at, min(state[STOP], state[LIMIT]))
    if behind < 0:
        ended = state[LIMIT] > state[STOP]
        reason = VARINT if behind != VARINT_ENDS else CUT if ended else ENDS_EARLY
        return _fault(state, reason, at)
    state[AT] = behind
    return value


@jit
def _read_size(arena: Any, state: Any, prefix: int) -> Any:
    """Read a length or count written as `prefix` says: NULL for null, BAD_SIZE after a fault."""
    at = state[AT]
    if prefix == 0:
        size = _read_varint(arena, state) - 1
        return BAD_SIZE if state[FAULT] else size
    if not _has(state, prefix):
        _short(state, prefix, at)
        return BAD_SIZE
    size = int16_at(arena, at) if prefix == 2 else int32_at(arena, at)
    if size < NULL:
        _fault(state, NEGATIVE, at)
        return BAD_SIZE
    state[AT] += prefix
    return size


@jit
def _keep(state: Any, registers: Any, numbers: Any, value: int, size: int) -> None:
    """Put a value, or a span if `size` is not negative, into the registers that an instruction names."""
    first, second = np.int64(numbers[2]), np.int64(numbers[3])
    present = state[PRESENT]
    if first >= 0 and not (numbers[4] and present >> first & 1):
        registers[first] = value
        if size >= 0:
            registers[first + 1] = size
        present |= np.int64(1) << first
    if second >= 0:
        registers[second] = value
        if size >= 0:
            registers[second + 1] = size
        present |= np.int64(1) << second
    state[PRESENT] = present


@jit
def skip(state: Any, row: int, size: int) -> Any:
    if not _has(state, size):
        return _short(state, size, state[AT])
    state[AT] += size
    return row + 1


@jit
def integer(arena: Any, numbers: Any, row: int, state: Any, registers: Any) -> Any:
    size, at = abs(np.int64(numbers[1])), state[AT]
    if not _has(state, size):
        return _short(state, size, at)
    if size == 4:
        value = int32_at(arena, at)
    elif size == 8:
        value = int64_at(arena, at)
    elif size == 1:
        value = int8_at(arena, at)
    elif numbers[1] < 0:
        value = uint16_at(arena, at)
    else:
        value = int16_at(arena, at)
    _keep(state, registers, numbers, value, -1)
    state[AT] += size
    return row + 1


@jit
def error(arena: Any, numbers: Any, row: int, state: Any, registers: Any) -> Any:
    if not _has(state, 2):
        return _short(state, 2, state[AT])
    code = int16_at(arena, state[AT])
    state[ERROR_SEEN] = 1
    if code != 0:
        state[ERROR_COUNT] += 1
        if state[ERROR_CODE] == 0:
            state[ERROR_CODE] = code
    _keep(state, registers, numbers, code, -1)
    state[AT] += 2
    return row + 1


@jit
def fixed(numbers: Any, row: int, state: Any, registers: Any) -> Any:
    size = np.int64(numbers[1])
    if not _has(state, size):
        return _short(state, size, state[AT])
    _keep(state, registers, numbers, state[AT], size)
    state[AT] += size
    return row + 1


@jit
def sized(arena: Any, numbers: Any, row: int, state: Any, registers: Any) -> Any:
    at = state[AT]
    size = _read_size(arena, state, np.int64(numbers[1]))
    if size == BAD_SIZE:
        return -1
    if size == NULL:
        return row + 1
    if not _has(state, size):
        return _short(state, size, at)
    _keep(state, registers, numbers, state[AT], size)
    state[AT] += size
    return row + 1


@jit
def records(arena: Any, numbers: Any, row: int, state: Any, registers: Any, summary: Any) -> Any:
    """Read the headers in a records field; of one that is cut off, those that are there."""
    at = state[AT]
    size = _read_size(arena, state, np.int64(numbers[1]))
    if size == BAD_SIZE:
        return -1
    if size == NULL:
        return row + 1
    start = state[AT]
    whole = start + size <= state[LIMIT]
    end = min(state[STOP], state[LIMIT], start + size)
    _keep(state, registers, numbers, start, size if whole else end - start)
    summarise(arena, start, end, start + size if whole else end, summary)
    if summary[MAGIC] == 2:
        registers[PRODUCER_ID] = summary[SUMMARY_PRODUCER]
        registers[PRODUCER_EPOCH] = summary[SUMMARY_EPOCH]
        state[PRESENT] |= PRODUCER_BITS
    if not _has(state, size):
        return _short(state, size, at)
    state[AT] += size
    return row + 1


@jit
def array(arena: Any, numbers: Any, row: int, state: Any, loops: Any) -> Any:
    at = state[AT]
    count = _read_size(arena, state, np.int64(numbers[1]))
    if count == BAD_SIZE:
        return -1
    if count <= 0:
        return np.int64(numbers[2])
    if count * np.int64(numbers[3]) > state[LIMIT] - state[AT]:
        return _fault(state, COUNT, at)
    loops[np.int64(numbers[4]), LEFT] = count
    return row + 1


@jit
def next_element(numbers: Any, row: int, loops: Any) -> Any:
    depth = np.int64(numbers[4])
    loops[depth, LEFT] -= 1
    return np.int64(numbers[1]) if loops[depth, LEFT] else row + 1


@jit
def step_over(arena: Any, numbers: Any, row: int, state: Any) -> Any:
    at = state[AT]
    count = _read_size(arena, state, np.int64(numbers[1]))
    if count == BAD_SIZE:
        return -1
    size = max(count, 0) * np.int64(numbers[2])
    if size > state[LIMIT] - state[AT]:
        return _fault(state, COUNT, at)
    if not _has(state, size):
        return _short(state, size, at)
    state[AT] += size
    return row + 1


@jit
def optional(arena: Any, numbers: Any, row: int, state: Any) -> Any:
    at = state[AT]
    if not _has(state, 1):
        return _short(state, 1, at)
    mark = int8_at(arena, at)
    if mark != ABSENT_STRUCT and mark != PRESENT_STRUCT:
        return _fault(state, OPTION, at)
    state[AT] += 1
    return row + 1 if mark == PRESENT_STRUCT else np.int64(numbers[1])


@jit
def tags(arena: Any, numbers: Any, row: int, state: Any, loops: Any) -> Any:
    at = state[AT]
    if at < min(state[STOP], state[LIMIT]) and arena[at] == 0:
        state[AT] += 1
        return np.int64(numbers[1])
    count = _read_varint(arena, state)
    if state[FAULT]:
        return -1
    if count * SMALLEST_TAGGED > state[LIMIT] - state[AT]:
        return _fault(state, COUNT, at)
    depth = np.int64(numbers[4])
    loops[depth, LEFT] = count
    loops[depth, LAST_TAG] = -1
    return row + 1


@jit
def tag(arena: Any, program: Any, row: int, state: Any, loops: Any) -> Any:
    """Read tags until one is known, whose value comes next, or none is left."""
    depth = np.int64(program[row, 4])
    while loops[depth, LEFT] > 0:
        loops[depth, LEFT] -= 1
        at = state[AT]
        number = _read_varint(arena, state)
        size = np.int64(0) if state[FAULT] else _read_varint(arena, state)
        if state[FAULT]:
            return -1
        if number <= loops[depth, LAST_TAG]:
            return _fault(state, TAG_ORDER, at)
        if state[AT] + size > state[LIMIT]:
            return _fault(state, ENDS_EARLY, at)
        loops[depth, LAST_TAG] = number
        for case in range(row + 1, row + 1 + program[row, 2]):
            if program[case, 1] == number:
                loops[depth, OUTER_LIMIT] = state[LIMIT]
                loops[depth, VALUE_START] = state[AT]
                state[LIMIT] = state[AT] + size
                return np.int64(program[case, 2])
        if not _has(state, size):
            return _short(state, size, at)
        state[AT] += size
    return np.int64(program[row, 1])


@jit
def end_tag(numbers: Any, state: Any, loops: Any) -> Any:
    depth = np.int64(numbers[4])
    if state[AT] != state[LIMIT]:
        return _fault(state, TAG_SIZE, loops[depth, VALUE_START])
    state[LIMIT] = loops[depth, OUTER_LIMIT]
    return np.int64(numbers[1])


@jit
def enter(numbers: Any, row: int, state: Any) -> Any:
    state[PRESENT] &= ~(np.int64(numbers[1]) << ROW_FIRST)
    if numbers[2]:
        state[TOPIC_ROW] = state[ROWS]
    return row + 1


@jit
def emit_row(
    row: int,
    state: Any,
    registers: Any,
    summary: Any,
    rows: Any,
    row_present: Any,
    row_message: Any,
) -> Any:
    """Write a partition row, if there is room; count it anyway."""
    here = state[ROWS]
    if here - state[FIRST_ROW] >= MOST_ROWS:
        return _fault(state, TOO_MANY, state[AT])
    state[ROWS] = here + 1
    if here < len(rows):
        row_message[here] = state[MESSAGE]
        row_present[here] = state[PRESENT] >> ROW_FIRST & ROW_BITS
        for index in range(ROW_VALUES):
            rows[here, index] = registers[ROW_FIRST + index]
        if state[PRESENT] & RECORDS_BIT:
            for index in range(ROW_VALUES, ROW_WIDTH):
                rows[here, index] = summary[index - ROW_VALUES]
        else:
            for index in range(ROW_VALUES, ROW_WIDTH):
                rows[here, index] = -1
    state[PRESENT] &= ~PARTITION_BIT
    return row + 1


@jit
def end_topic(
    row: int,
    state: Any,
    registers: Any,
    summary: Any,
    rows: Any,
    row_present: Any,
    row_message: Any,
) -> Any:
    """Write a topic without partitions as a row, and forget the topic."""
    following = row + 1
    if state[ROWS] == state[TOPIC_ROW] and state[PRESENT] & TOPIC_BITS:
        following = emit_row(row, state, registers, summary, rows, row_present, row_message)
    state[PRESENT] &= ~TOPIC_BITS
    return following


@jit
def emit_node(row: int, state: Any, registers: Any, nodes: Any, node_message: Any) -> Any:
    here = state[NODES]
    if not state[PRESENT] & NODE_BIT:
        return row + 1
    state[NODES] = here + 1
    if here < len(nodes):
        node_message[here] = state[MESSAGE]
        for index in range(BROKER_WIDTH):
            nodes[here, index] = registers[NODE_FIRST + index]
    return row + 1


@jit
def fallback(arena: Any, numbers: Any, row: int, state: Any) -> Any:
    if _has(state, 2) and int16_at(arena, state[AT]) == UNSUPPORTED_VERSION:
        return np.int64(numbers[1])
    return row + 1


@jit
def end(state: Any) -> Any:
    if state[AT] != state[LIMIT]:
        _fault(state, LEFT_OVER, state[AT])
    return -1
