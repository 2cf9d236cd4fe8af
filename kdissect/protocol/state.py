"""What a walk has in hand between two operations: the numbering of its small arrays, and of the faults it may find.

Kernels know numbers only, so everything here is one. STATE numbers the elements of the walk's state; LOOP those of one
open loop or section of tagged fields, of which there is one row per depth of nesting.
"""

from enum import IntEnum

from kdissect.protocol.registers import (
    BROKER_SLOTS,
    BROKER_WIDTH,
    MESSAGE_WIDTH,
    ROW_SLOTS,
    ROW_VALUES,
)


class Reason(IntEnum):
    """What is wrong with a message, or why it was not read."""

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
    Reason.CUT: "capture lost the rest",
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

STATE_WIDTH = 14
(
    AT,  # the next byte to read
    STOP,  # where the bytes end
    LIMIT,  # where the frame, or the tagged field at hand, ends by its own word
    PRESENT,  # one bit per register that has a value
    ROWS,  # rows written so far
    FIRST_ROW,  # rows written before this message
    TOPIC_ROW,  # rows written before the topic at hand
    NODES,  # nodes written so far
    ERROR_CODE,  # the first that is not 0
    ERROR_COUNT,  # how many are not 0
    ERROR_SEEN,  # 1 after any error code, 0 or not
    FAULT,  # a Reason
    FAULT_AT,  # the first byte of what could not be read
    MESSAGE,
) = range(STATE_WIDTH)

DEPTH, LOOP_WIDTH = 16, 4
(
    LEFT,  # elements or tagged fields still to come
    OUTER_LIMIT,  # the LIMIT outside of the tagged field at hand
    VALUE_START,  # where the tagged field at hand starts
    LAST_TAG,
) = range(LOOP_WIDTH)

VERDICT_WIDTH = 6
(
    VERDICT_ERROR_CODE,
    VERDICT_ERROR_COUNT,
    VERDICT_ERROR_SEEN,
    VERDICT_FAULT,
    VERDICT_FAULT_AT,  # from the first byte of the message
    VERDICT_FAULT_ROW,  # the row of the program table that met it
) = range(VERDICT_WIDTH)

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
MESSAGE_BITS, ROW_BITS = (1 << MESSAGE_WIDTH) - 1, (1 << ROW_VALUES) - 1

MOST_ROWS = 1 << 20  # of one message: a row takes a hundred times the bytes that may ask for it
