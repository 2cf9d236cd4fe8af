"""Walk messages: run each message's program over its bytes and write what it keeps into columns.

This is the one compiled loop of the columnar reader. In come an arena of bytes, where in it the messages
stand, and the programs of `program`; out come a row per message, per topic-partition and per node, and of
every message the first fault. No object is made per message, and nothing is trusted: every byte is known to
be there before it is read, every count fits the bytes left before it is looped over, a tagged field must fill
its size and a message its frame. The plain codec reads by the same rules, and the two must agree on what is a
fault and where it starts.

A capture may have lost the end of a frame: then the bytes end at `stop`, before the frame does at
`frame_stop`. Counts and lengths are held against the frame, reading against the bytes, so whatever stands
before the loss is still read.

The loop is one long function on purpose. As one function per operation it took seven times as long to run and
twice as long to compile, since Numba counts references to every array that is passed on.
"""

from typing import Any

import numpy as np

from kdissect.jit.decorators import jit, jit_inner
from kdissect.protocol.columnar.registers import (
    BROKER_WIDTH,
    MESSAGE_WIDTH,
    ROW_VALUES,
)
from kdissect.protocol.columnar.vm_state import (
    COUNT,
    CUT,
    DEPTH,
    ENDS_EARLY,
    ERROR_CODE,
    ERROR_COUNT,
    ERROR_SEEN,
    FAULT,
    FAULT_AT,
    FAULT_ROW,
    LEFT_OVER,
    MOST_ROWS,
    MOST_TEXT,
    NEGATIVE,
    NODE_BIT,
    NODE_FIRST,
    NONE,
    OPTION,
    OWNER,
    OWNER_PRESENT,
    OWNER_WIDTH,
    PARTITION_BIT,
    PRESENT,
    PRODUCER_BITS,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS_BIT,
    REGISTERS,
    ROW_FIRST,
    TAG_ORDER,
    TAG_SIZE,
    TOO_MANY,
    TOPIC_BIT,
    TOPIC_BITS,
    TOPIC_LENGTH,
    VARINT,
    VERDICT_WIDTH,
)
from kdissect.protocol.error_codes import ErrorCode
from kdissect.protocol.integers import ENDS_EARLY as VARINT_ENDS
from kdissect.protocol.integers import int8_at, int16_at, int32_at, int64_at, uint16_at, uvarint_at
from kdissect.protocol.records.batch_summary import MAGIC, summarise
from kdissect.protocol.records.batch_summary import PRODUCER_EPOCH as SUMMARY_EPOCH
from kdissect.protocol.records.batch_summary import PRODUCER_ID as SUMMARY_PRODUCER
from kdissect.protocol.records.batch_summary import WIDTH as SUMMARY_WIDTH

# Kernels know plain numbers only; a test holds these against Op.
OP_SKIP, OP_FIXED, OP_INTEGER, OP_ERROR, OP_SIZED, OP_STEP, OP_RECORDS = range(7)
OP_ARRAY, OP_NEXT, OP_OPTION, OP_TAGS, OP_TAG, OP_CASE, OP_END_TAG = range(7, 14)
OP_ENTER, OP_ROW, OP_TOPIC, OP_NODE, OP_FALLBACK, OP_END = range(14, 20)

ROWS, NODES, ROWS_WANTED, NODES_WANTED = range(4)  # of `used`
NULL, BELOW_NULL = -1, -3  # the latter beside the ways in which a varint goes wrong
SMALLEST_TAGGED = 2  # a tag and a size
ABSENT_STRUCT, PRESENT_STRUCT = 0xFF, 1


@jit
def walk(
    table: Any,
    entries: Any,
    arena: Any,
    spans: Any,
    first: int,
    used: Any,
    messages: Any,
    rows: Any,
    nodes: Any,
) -> Any:
    """Walk the messages from `first` on.

    Give the first that is not done because its rows or nodes do not fit.

    entries[i] is the first row of message i's program in the table, negative if there is none; spans[i] is
    its start, stop and frame stop in the arena. `used` counts the rows and nodes written, then those that the
    last message wants.
    """
    registers = np.zeros(REGISTERS, np.int64)
    summary = np.zeros(SUMMARY_WIDTH, np.int64)
    left = np.zeros(DEPTH, np.int64)  # elements or tagged fields still to come, at every depth
    outer_limit = np.zeros(DEPTH, np.int64)  # where the frame or tagged field around ends
    value_start = np.zeros(DEPTH, np.int64)
    last_tag = np.zeros(DEPTH, np.int64)
    for message in range(first, len(entries)):
        entry = entries[message]
        if entry < 0:
            continue
        at, stop, limit = spans[message, 0], spans[message, 1], spans[message, 2]
        readable = min(stop, limit)
        row, present, fault, field_at = entry, 0, NONE, at
        row_count, node_count, topic_row = used[ROWS], used[NODES], used[ROWS]
        error_code, error_count, error_seen, text = 0, 0, 0, 0
        while True:
            op, number = table[row, 0], table[row, 1]
            field_at = at
            if op <= OP_RECORDS:
                size = number
                if op >= OP_SIZED:
                    size, at = _size_at(arena, at, readable, number)
                    if at < 0:
                        fault = _size_fault(at, stop < limit)
                        break
                    if op == OP_STEP:
                        size = max(size, 0) * table[row, 2]
                        if size > limit - at:
                            fault = COUNT
                            break
                    if size == NULL:
                        row += 1
                        continue
                elif size < 0:
                    size = -size
                if at + size > readable:
                    fault = CUT if at + size <= limit else ENDS_EARLY
                if op == OP_RECORDS:
                    there = min(at + size, readable)
                    summarise(arena, at, there, there if fault == ENDS_EARLY else at + size, summary)
                    if summary[MAGIC] == 2:
                        registers[PRODUCER_ID] = summary[SUMMARY_PRODUCER]
                        registers[PRODUCER_EPOCH] = summary[SUMMARY_EPOCH]
                        present |= PRODUCER_BITS
                    if fault == ENDS_EARLY:
                        size = there - at
                elif fault != NONE:
                    break
                if op != OP_SKIP and op != OP_STEP:
                    value = at
                    if op == OP_INTEGER or op == OP_ERROR:
                        value = _integer_at(arena, at, number)
                    keep, keep_too = table[row, 2], table[row, 3]
                    if keep >= 0 and not (table[row, 4] and present >> keep & 1):
                        registers[keep] = value
                        present |= 1 << keep
                        if op != OP_INTEGER and op != OP_ERROR:
                            registers[keep + 1] = size
                    if keep_too >= 0:
                        registers[keep_too] = value
                        present |= 1 << keep_too
                        if op != OP_INTEGER and op != OP_ERROR:
                            registers[keep_too + 1] = size
                    if op == OP_ERROR:
                        error_seen = 1
                        if value != 0:
                            error_count += 1
                            if error_code == 0:
                                error_code = value
                    if fault != NONE:
                        break
                at += size
                row += 1
            elif op == OP_NEXT:
                depth = table[row, 4]
                left[depth] -= 1
                row = entry + number if left[depth] > 0 else row + 1
            elif op == OP_TAGS:
                if at < readable and arena[at] == 0:
                    at += 1
                    row = entry + number
                    continue
                count, at = uvarint_at(arena, at, readable)
                if at < 0:
                    fault = _size_fault(at, stop < limit)
                    break
                if count * SMALLEST_TAGGED > limit - at:
                    fault = COUNT
                    break
                depth = table[row, 4]
                left[depth] = count
                last_tag[depth] = -1
                row += 1
            elif op == OP_ARRAY:
                count, at = _size_at(arena, at, readable, number)
                if at < 0:
                    fault = _size_fault(at, stop < limit)
                    break
                if count * table[row, 3] > limit - at:
                    fault = COUNT
                    break
                left[table[row, 4]] = count
                row = row + 1 if count > 0 else entry + table[row, 2]
            elif op == OP_ENTER:
                present &= ~(number << ROW_FIRST)
                if table[row, 2]:
                    topic_row = row_count
                row += 1
            elif op == OP_ROW or op == OP_TOPIC:
                if op == OP_ROW or (row_count == topic_row and present & TOPIC_BITS):
                    if present & TOPIC_BIT:
                        text += registers[TOPIC_LENGTH]
                    if row_count - used[ROWS] >= MOST_ROWS or text > MOST_TEXT:
                        fault = TOO_MANY
                        break
                    _write_row(rows, row_count, message, present, registers, summary)
                    row_count += 1
                present &= ~PARTITION_BIT if op == OP_ROW else ~TOPIC_BITS
                row += 1
            elif op == OP_TAG:
                depth = table[row, 4]
                if left[depth] == 0:
                    row = entry + number
                    continue
                left[depth] -= 1
                tag, size_at = uvarint_at(arena, at, readable)
                if size_at < 0:
                    fault = _size_fault(size_at, stop < limit)
                    break
                size, value_at = uvarint_at(arena, size_at, readable)
                if value_at < 0:
                    field_at = size_at
                    fault = _size_fault(value_at, stop < limit)
                    break
                if tag <= last_tag[depth] or value_at + size > limit:
                    fault = TAG_ORDER if tag <= last_tag[depth] else ENDS_EARLY
                    break
                last_tag[depth] = tag
                case = _case_of(table, row, tag)
                at = value_at
                if case < 0:
                    if at + size > readable:
                        fault = CUT
                        break
                    at += size
                else:
                    outer_limit[depth] = limit
                    value_start[depth] = at
                    limit = at + size
                    readable = min(stop, limit)
                    row = entry + case
            elif op == OP_END_TAG:
                depth = table[row, 4]
                if at != limit:
                    field_at = value_start[depth]
                    fault = TAG_SIZE
                    break
                limit = outer_limit[depth]
                readable = min(stop, limit)
                row = entry + number
            elif op == OP_OPTION:
                if at >= readable:
                    fault = CUT if at < limit else ENDS_EARLY
                    break
                if arena[at] != ABSENT_STRUCT and arena[at] != PRESENT_STRUCT:
                    fault = OPTION
                    break
                row = row + 1 if arena[at] == PRESENT_STRUCT else entry + number
                at += 1
            elif op == OP_NODE:
                if present & NODE_BIT:
                    if node_count - used[NODES] >= MOST_ROWS:
                        fault = TOO_MANY
                        break
                    _write_node(nodes, node_count, message, present, registers)
                    node_count += 1
                row += 1
            elif op == OP_FALLBACK:
                unsupported = at + 2 <= readable and int16_at(arena, at) == ErrorCode.UNSUPPORTED_VERSION
                row = entry + number if unsupported else row + 1
            else:
                ends = at == limit or (at + number == limit == readable and int32_at(arena, at) == 0)
                fault = NONE if ends else LEFT_OVER
                break
        if fault != NONE and present & PARTITION_BIT:  # what was read of a partition is kept
            _write_row(rows, row_count, message, present, registers, summary)
            row_count += 1
        elif fault != NONE and row_count == topic_row and present & TOPIC_BITS:
            # The rest may be a partition's.
            _write_row(rows, row_count, message, present & TOPIC_BITS, registers, summary)
            row_count += 1
        used[ROWS_WANTED], used[NODES_WANTED] = row_count, node_count
        if row_count > len(rows) or node_count > len(nodes):
            return message
        used[ROWS], used[NODES] = row_count, node_count
        messages[message, PRESENT] = present
        messages[message, ERROR_CODE] = error_code
        messages[message, ERROR_COUNT] = error_count
        messages[message, ERROR_SEEN] = error_seen
        messages[message, FAULT] = fault
        messages[message, FAULT_AT] = field_at - spans[message, 0] if fault != NONE else -1
        messages[message, FAULT_ROW] = row if fault != NONE else -1
        for index in range(MESSAGE_WIDTH):
            messages[message, VERDICT_WIDTH + index] = registers[index]
    return len(entries)


@jit_inner
def _size_at(arena: Any, at: int, readable: int, prefix: int) -> Any:
    """Read a length or count, NULL for null, and give what is behind it: less than 0 if it cannot be read."""
    if prefix == 0:
        size, behind = uvarint_at(arena, at, readable)
        return size - 1, behind
    if at + prefix > readable:
        return np.int64(0), np.int64(VARINT_ENDS)
    size = int16_at(arena, at) if prefix == 2 else int32_at(arena, at)
    return size, at + prefix if size >= NULL else np.int64(BELOW_NULL)


@jit_inner
def _size_fault(behind: int, cut: bool) -> int:
    """Return why a size could not be read."""
    if behind == VARINT_ENDS:
        return CUT if cut else ENDS_EARLY
    return NEGATIVE if behind == BELOW_NULL else VARINT


@jit_inner
def _integer_at(arena: Any, at: int, kind: int) -> Any:
    """Read an integer of -kind bytes if it is unsigned, else of kind bytes."""
    if kind == 4:
        return int32_at(arena, at)
    if kind == 8:
        return int64_at(arena, at)
    if kind == 1:
        return int8_at(arena, at)
    return int16_at(arena, at) if kind == 2 else uint16_at(arena, at)


@jit_inner
def _case_of(table: Any, row: int, tag: int) -> int:
    """Return the row at which the value of a tag is read, or -1 if nobody knows the tag."""
    for case in range(row + 1, row + 1 + table[row, 2]):
        if table[case, 1] == tag:
            return table[case, 2]  # type: ignore[no-any-return]
    return -1


@jit_inner
def _write_row(rows: Any, here: int, message: int, present: int, registers: Any, summary: Any) -> None:
    """Write the topic and partition at hand; where there is no room it is counted all the same."""
    if here < len(rows):
        rows[here, OWNER] = message
        rows[here, OWNER_PRESENT] = present >> ROW_FIRST
        for index in range(ROW_VALUES):
            rows[here, OWNER_WIDTH + index] = registers[ROW_FIRST + index]
        has_records = present & RECORDS_BIT
        for index in range(SUMMARY_WIDTH):
            rows[here, OWNER_WIDTH + ROW_VALUES + index] = summary[index] if has_records else -1


@jit_inner
def _write_node(nodes: Any, here: int, message: int, present: int, registers: Any) -> None:
    """Write the node at hand."""
    if here < len(nodes):
        nodes[here, OWNER] = message
        nodes[here, OWNER_PRESENT] = present >> NODE_FIRST
        for index in range(BROKER_WIDTH):
            nodes[here, OWNER_WIDTH + index] = registers[NODE_FIRST + index]
