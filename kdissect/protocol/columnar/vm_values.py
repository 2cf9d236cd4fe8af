"""Values in a walk: the size of each is read or known, its bytes are there, and its registers keep it.

These functions become part of the loop of `vm`.
"""

from typing import Any

import numpy as np

from kdissect.jit.decorators import jit_inline
from kdissect.protocol.columnar.vm_state import (
    COUNT,
    CUT,
    ENDS_EARLY,
    NEGATIVE,
    NONE,
    OP_ERROR,
    OP_INTEGER,
    OP_RECORDS,
    OP_SIZED,
    OP_SKIP,
    OP_STEP,
    PRODUCER_BITS,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    VARINT,
)
from kdissect.protocol.integers import ENDS_EARLY as VARINT_ENDS
from kdissect.protocol.integers import int8_at, int16_at, int32_at, int64_at, uint16_at, uvarint_at
from kdissect.protocol.records.batch_summary import MAGIC, summarise
from kdissect.protocol.records.batch_summary import PRODUCER_EPOCH as SUMMARY_EPOCH
from kdissect.protocol.records.batch_summary import PRODUCER_ID as SUMMARY_PRODUCER

NULL, BELOW_NULL = -1, -3  # the latter beside the ways in which a varint goes wrong


@jit_inline
def op_value(
    table: Any,
    row: int,
    arena: Any,
    offset: int,
    readable: int,
    limit: int,
    tally: Any,
    registers: Any,
    summary: Any,
) -> Any:
    """Read a value of some size. Return the position behind it, and a fault."""
    op, number = table[row, 0], table[row, 1]
    size = number
    if op >= OP_SIZED:
        size, offset = read_size(arena, offset, readable, number)
        if offset < 0:
            return offset, size_fault(offset, readable < limit)
        if op == OP_STEP:
            size = max(size, 0) * table[row, 2]
            if size > limit - offset:
                return offset, COUNT
        if size == NULL:
            return offset, NONE
    elif size < 0:
        size = -size
    fault = NONE
    if offset + size > readable:
        fault = CUT if offset + size <= limit else ENDS_EARLY
    if op == OP_RECORDS:
        available = min(offset + size, readable)
        summarise(arena, offset, available, available if fault == ENDS_EARLY else offset + size, summary)
        if summary[MAGIC] == 2:
            registers[PRODUCER_ID] = summary[SUMMARY_PRODUCER]
            registers[PRODUCER_EPOCH] = summary[SUMMARY_EPOCH]
            tally.present |= PRODUCER_BITS
        if fault == ENDS_EARLY:
            size = available - offset
    elif fault != NONE:
        return offset, fault
    if op == OP_INTEGER or op == OP_ERROR:
        _keep_number(table, row, _integer_at(arena, offset, number), tally, registers)
    elif op != OP_SKIP and op != OP_STEP:
        _keep_span(table, row, offset, size, tally, registers)
    return offset + size, fault


@jit_inline
def op_block(table: Any, row: int, arena: Any, offset: int, readable: int, tally: Any, registers: Any) -> Any:
    """Read fields of a fixed size if their bytes are all there.

    Return the position behind them, and the row behind theirs; else the same position, and their first row.
    """
    if offset + table[row, 1] > readable:
        return offset, row + 1
    stop = row + 1 + table[row, 2]
    for at in range(row + 1, stop):
        op, number = table[at, 0], table[at, 1]
        if op == OP_INTEGER or op == OP_ERROR:
            _keep_number(table, at, _integer_at(arena, offset, number), tally, registers)
        elif op != OP_SKIP:
            _keep_span(table, at, offset, number, tally, registers)
        offset += abs(number)
    return offset, stop


@jit_inline
def _keep_number(table: Any, row: int, value: int, tally: Any, registers: Any) -> None:
    """Put an integer into the registers of its row."""
    keep, keep_too = table[row, 2], table[row, 3]
    if keep >= 0 and not (table[row, 4] and tally.present >> keep & 1):
        registers[keep] = value
        tally.present |= 1 << int(keep)
    is_error = table[row, 0] == OP_ERROR
    # A partition may have two error codes: that of a fetch, and that of acknowledgements. The first counts.
    if keep_too >= 0 and not (is_error and tally.present >> keep_too & 1 and registers[keep_too] != 0):
        registers[keep_too] = value
        tally.present |= 1 << int(keep_too)
    if is_error:
        tally.error_seen = 1
        if value != 0:
            tally.error_count += 1
            if tally.error_code == 0:
                tally.error_code = int(value)


@jit_inline
def _keep_span(table: Any, row: int, start: int, size: int, tally: Any, registers: Any) -> None:
    """Put the start and size of bytes into the registers of their row."""
    keep, keep_too = table[row, 2], table[row, 3]
    if keep >= 0 and not (table[row, 4] and tally.present >> keep & 1):
        registers[keep] = start
        registers[keep + 1] = size
        tally.present |= 1 << int(keep)
    if keep_too >= 0:
        registers[keep_too] = start
        registers[keep_too + 1] = size
        tally.present |= 1 << int(keep_too)


@jit_inline
def read_size(arena: Any, offset: int, readable: int, prefix: int) -> Any:
    """Read a length or count, NULL for null.

    Return it with the position behind it, which is below 0 if it cannot be read.
    """
    if prefix == 0:
        size, behind = uvarint_at(arena, offset, readable)
        return size - 1, behind
    if offset + prefix > readable:
        return np.int64(0), np.int64(VARINT_ENDS)
    size = int16_at(arena, offset) if prefix == 2 else int32_at(arena, offset)
    return size, offset + prefix if size >= NULL else np.int64(BELOW_NULL)


@jit_inline
def size_fault(behind: int, cut: bool) -> int:
    """Return why a size could not be read."""
    if behind == VARINT_ENDS:
        return CUT if cut else ENDS_EARLY
    return NEGATIVE if behind == BELOW_NULL else VARINT


@jit_inline
def _integer_at(arena: Any, offset: int, kind: int) -> Any:
    """Return an integer of `kind` bytes; a negative kind stands for an unsigned integer."""
    if kind == 4:
        return int32_at(arena, offset)
    if kind == 8:
        return int64_at(arena, offset)
    if kind == 1:
        return int8_at(arena, offset)
    return int16_at(arena, offset) if kind == 2 else uint16_at(arena, offset)
