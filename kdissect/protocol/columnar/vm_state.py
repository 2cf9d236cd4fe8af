"""The numbers that a walk works with: operations, registers, columns that it writes, faults that it may find.

Kernels can use plain numbers only, so the members of `Reason` stand here as numbers too.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect import limits
from kdissect.jit.rows import Row, RowTable, new_table, row_type
from kdissect.protocol.columnar.registers import (
    BROKER_SLOTS,
    BROKER_WIDTH,
    MESSAGE_WIDTH,
    ROW_SLOTS,
    ROW_VALUES,
)
from kdissect.protocol.records.batch_summary import SUMMARY


class Reason(IntEnum):
    """Reason why a message is wrong or was not read."""

    NONE = 0
    UNKNOWN_KEY = 1
    UNKNOWN_VERSION = 2
    ENDS_EARLY = 3
    CUT = 4
    NEGATIVE = 5
    COUNT = 6
    VARINT = 7
    OPTION = 8
    TAG_ORDER = 9
    TAG_SIZE = 10
    LEFT_OVER = 11
    TOO_MANY = 12


REASONS = {
    Reason.UNKNOWN_KEY: "API key not known",
    Reason.UNKNOWN_VERSION: "API version not known",
    Reason.ENDS_EARLY: "message ends early",
    Reason.CUT: "the rest of the frame is missing",
    Reason.NEGATIVE: "negative length",
    Reason.COUNT: "count does not fit the bytes left",
    Reason.VARINT: "varint longer than 32 bits",
    Reason.OPTION: "nullable struct marked neither present nor absent",
    Reason.TAG_ORDER: "tags do not ascend",
    Reason.TAG_SIZE: "tagged field does not fill its size",
    Reason.LEFT_OVER: "bytes left over",
    Reason.TOO_MANY: "more topics and partitions than are kept of one message",
}
(NONE, UNKNOWN_KEY, UNKNOWN_VERSION, ENDS_EARLY, CUT, NEGATIVE, COUNT, VARINT) = range(8)
(OPTION, TAG_ORDER, TAG_SIZE, LEFT_OVER, TOO_MANY) = range(8, 13)

# Kernels know plain numbers only; a test holds these against Op.
OP_SKIP, OP_FIXED, OP_INTEGER, OP_ERROR, OP_SIZED, OP_STEP, OP_RECORDS = range(7)
OP_ARRAY, OP_NEXT, OP_OPTION, OP_TAGS, OP_TAG, OP_CASE, OP_END_TAG = range(7, 14)
OP_ENTER, OP_ROW, OP_TOPIC, OP_NODE, OP_FALLBACK, OP_END, OP_BLOCK = range(14, 21)

DEPTH = 16  # of loops and tagged fields inside one another; the schema needs 7

# The columns that are written of every message, in front of its registers.
VERDICT_WIDTH = 7
(
    PRESENT,  # one bit per register that has a value
    ERROR_CODE,  # the first that is not 0, or 0
    ERROR_COUNT,  # how many are not 0
    ERROR_SEEN,  # 1 after any error code, be it 0
    FAULT,  # a Reason
    FAULT_AT,  # the first byte of the field that cannot be read, from the start of the message; or -1
    FAULT_ROW,  # the row of the program table that met it, or -1
) = range(VERDICT_WIDTH)

# The columns of every row and every node, in front of its registers.
OWNER_WIDTH = 2
OWNER, OWNER_PRESENT = range(OWNER_WIDTH)  # the message it belongs to; one bit per register that has a value

# Registers: those of the message, then of the row, then of the node.
ROW_FIRST, NODE_FIRST = MESSAGE_WIDTH, MESSAGE_WIDTH + ROW_VALUES
REGISTERS = NODE_FIRST + BROKER_WIDTH
PRODUCER_ID = ROW_FIRST + ROW_SLOTS["producer_id"]
PRODUCER_EPOCH = ROW_FIRST + ROW_SLOTS["producer_epoch"]
TOPIC_BITS = 1 << (ROW_FIRST + ROW_SLOTS["topic"]) | 1 << (ROW_FIRST + ROW_SLOTS["topic_id"])
PARTITION_BIT = 1 << (ROW_FIRST + ROW_SLOTS["partition"])
RECORDS_BIT = 1 << (ROW_FIRST + ROW_SLOTS["record_set"])
PRODUCER_BITS = 1 << PRODUCER_ID | 1 << PRODUCER_EPOCH
NODE_BIT = 1 << (NODE_FIRST + BROKER_SLOTS["node_id"])

TOPIC_LENGTH = ROW_FIRST + ROW_SLOTS["topic"] + 1
TOPIC_BIT = 1 << (ROW_FIRST + ROW_SLOTS["topic"])

MOST_ROWS = limits.ELEMENTS  # of one message, and as many nodes
MOST_TEXT = min(64 * MOST_ROWS, 1 << 30)  # bytes of one message's topics, each as often as it has rows


@row_type
class Tally(Row):
    """Counts of what was read of one message so far."""

    message: int  # its number
    present: int  # one bit per register that has a value
    first_row: int  # of the rows of this message
    row_count: int  # of all messages
    topic_row: int  # the first row since the topic at hand began
    first_node: int
    node_count: int
    error_code: int  # the first that is not 0, or 0
    error_count: int
    error_seen: int  # 1 after any error code, be it 0
    text: int  # bytes of topics in the rows so far
    summary_count: int  # of all messages


@row_type
class Scope(Row):
    """A loop or a tagged field that is open around the cursor."""

    left: int  # elements or tagged fields still to come
    last_tag: int
    outer_limit: int  # where the frame or tagged field around ends
    value_start: int  # of the tagged field


PAGE_ROWS = 512  # numbers of 8 bytes
APART = 40  # numbers


def new_columns(rows: int, width: int, most: int = 1 << 40) -> NDArray[np.int64]:
    """Return an array with room for so many rows, or some more up to `most`, whose columns are contiguous.

    A walk writes few of its columns, and readers take one after another. Columns do not begin at the same
    place of their pages: the processor's cache holds few lines of one such place.
    """
    padded = (rows // PAGE_ROWS + 1) * PAGE_ROWS + APART
    return np.empty((max(rows, min(padded, most)), width), np.int64, order="F")


LINE_NUMBERS = 8  # numbers that a line of the processor's cache has


def new_rows(rows: int, width: int) -> NDArray[np.int64]:
    """Return an array with room for so many rows, each in one piece.

    A walk writes most of a row at once, and loops read it so. Rows of 16 numbers fill two lines of the
    processor's cache: columns of their own were 29 places in memory, and took 35 ns an exchange more.
    """
    room = np.empty(rows * width + LINE_NUMBERS, np.int64)
    first = -(room.__array_interface__["data"][0] // room.itemsize) % LINE_NUMBERS
    return room[first : first + rows * width].reshape(rows, width)


class Scratch(NamedTuple):
    """The arrays that a walk works in. They hold nothing between two walks."""

    tallies: RowTable[Tally]  # one
    stack: RowTable[Scope]  # by depth
    registers: NDArray[np.int64]
    summary: NDArray[np.int64]


def scratch() -> Scratch:
    """Return new scratch space."""
    return Scratch(
        new_table(Tally, 1),
        new_table(Scope, DEPTH),
        np.zeros(REGISTERS, np.int64),
        np.zeros(len(SUMMARY), np.int64),
    )
