"""Write the rows of a walk: one of each message, of each topic-partition and of each node.

The functions become part of the loop of `vm`. A row without room is counted, so that the caller can make room
and walk its message again. Only values that are there are written: most messages have few of all that are
kept.
"""

from typing import Any

from kdissect.jit.decorators import jit_inline
from kdissect.jit.words import lowest_bit
from kdissect.protocol.columnar.registers import (
    BROKER_WIDTH,
    MESSAGE_WIDTH,
    ROW_VALUES,
    SUMMARY_AT,
    SUMMARY_ROW,
)
from kdissect.protocol.columnar.vm_state import (
    ERROR_CODE,
    ERROR_COUNT,
    ERROR_SEEN,
    FAULT,
    FAULT_AT,
    FAULT_ROW,
    MOST_ROWS,
    MOST_TEXT,
    NODE_BIT,
    NODE_FIRST,
    NONE,
    OWNER,
    OWNER_PRESENT,
    OWNER_WIDTH,
    PARTITION_BIT,
    PRESENT,
    RECORDS_BIT,
    ROW_FIRST,
    TOO_MANY,
    TOPIC_BIT,
    TOPIC_BITS,
    TOPIC_LENGTH,
    VERDICT_WIDTH,
)

MESSAGE_BITS, ROW_BITS = (1 << MESSAGE_WIDTH) - 1, (1 << ROW_VALUES) - 1


@jit_inline
def begin_message(tally: Any, message: int, row_count: int, node_count: int, summary_count: int) -> None:
    """Reset a tally for a new message, behind so many rows, nodes and summaries of those before it."""
    tally.message = message
    tally.present = 0
    tally.first_row = tally.topic_row = tally.row_count = int(row_count)
    tally.first_node = tally.node_count = int(node_count)
    tally.summary_count = int(summary_count)
    tally.error_code = tally.error_count = tally.error_seen = tally.text = 0


@jit_inline
def write_message(
    messages: Any, tally: Any, registers: Any, fault: int, fault_at: int, fault_row: int
) -> None:
    """Write the row of a message; fault_at counts from its start."""
    message = tally.message
    messages[message, PRESENT] = tally.present
    messages[message, ERROR_CODE] = tally.error_code
    messages[message, ERROR_COUNT] = tally.error_count
    messages[message, ERROR_SEEN] = tally.error_seen
    messages[message, FAULT] = fault
    messages[message, FAULT_AT] = fault_at if fault != NONE else -1
    messages[message, FAULT_ROW] = fault_row if fault != NONE else -1
    bits = tally.present & MESSAGE_BITS
    while bits:
        slot = lowest_bit(bits)
        messages[message, VERDICT_WIDTH + slot] = registers[slot]
        if slot + 1 < MESSAGE_WIDTH:  # the length of a span, whose bit is that of its start
            messages[message, VERDICT_WIDTH + slot + 1] = registers[slot + 1]
        bits &= bits - 1


@jit_inline
def emit_row(is_partition: bool, rows: Any, summaries: Any, tally: Any, registers: Any, summary: Any) -> int:
    """Emit a partition, or a topic that had none; return a fault."""
    if is_partition or (tally.row_count == tally.topic_row and tally.present & TOPIC_BITS):
        if tally.present & TOPIC_BIT:
            tally.text += int(registers[TOPIC_LENGTH])
        if tally.row_count - tally.first_row >= MOST_ROWS or tally.text > MOST_TEXT:
            return TOO_MANY
        _write_row(rows, summaries, tally, tally.present, registers, summary)
    tally.present &= ~PARTITION_BIT if is_partition else ~TOPIC_BITS
    return NONE


@jit_inline
def emit_node(nodes: Any, tally: Any, registers: Any) -> int:
    """Emit a node; return a fault."""
    if tally.present & NODE_BIT:
        if tally.node_count - tally.first_node >= MOST_ROWS:
            return TOO_MANY
        _write_node(nodes, tally, registers)
    return NONE


@jit_inline
def keep_partial_row(rows: Any, summaries: Any, tally: Any, registers: Any, summary: Any) -> None:
    """Write what was read before a fault: the current partition, or a topic without a row so far."""
    tally.text += int(registers[TOPIC_LENGTH]) if tally.present & TOPIC_BIT else 0
    if tally.present & PARTITION_BIT:
        _write_row(rows, summaries, tally, tally.present, registers, summary)
    elif tally.row_count == tally.topic_row and tally.present & TOPIC_BITS:
        _write_row(rows, summaries, tally, tally.present & TOPIC_BITS, registers, summary)


@jit_inline
def _write_row(rows: Any, summaries: Any, tally: Any, present: int, registers: Any, summary: Any) -> None:
    """Write the current topic and partition; without room the row is only counted."""
    row_number = tally.row_count
    tally.row_count = row_number + 1
    if row_number < len(rows):
        rows[row_number, OWNER] = tally.message
        rows[row_number, OWNER_PRESENT] = present >> ROW_FIRST
        bits = present >> ROW_FIRST & ROW_BITS
        while bits:
            slot = lowest_bit(bits)
            rows[row_number, OWNER_WIDTH + slot] = registers[ROW_FIRST + slot]
            if slot + 1 < ROW_VALUES:
                rows[row_number, OWNER_WIDTH + slot + 1] = registers[ROW_FIRST + slot + 1]
            bits &= bits - 1
        rows[row_number, OWNER_WIDTH + SUMMARY_AT] = -1
        if present & RECORDS_BIT:  # there are no more summaries than rows
            rows[row_number, OWNER_WIDTH + SUMMARY_AT] = tally.summary_count
            for index in range(SUMMARY_ROW):
                summaries[tally.summary_count, index] = summary[index]
            summaries[tally.summary_count, SUMMARY_ROW] = row_number
            tally.summary_count += 1


@jit_inline
def _write_node(nodes: Any, tally: Any, registers: Any) -> None:
    """Write the current node; without room it is only counted."""
    row_number = tally.node_count
    tally.node_count = row_number + 1
    if row_number < len(nodes):
        nodes[row_number, OWNER] = tally.message
        nodes[row_number, OWNER_PRESENT] = tally.present >> NODE_FIRST
        for index in range(BROKER_WIDTH):
            nodes[row_number, OWNER_WIDTH + index] = registers[NODE_FIRST + index]
