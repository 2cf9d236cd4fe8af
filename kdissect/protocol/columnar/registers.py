"""Which values the columnar reader keeps, and where: the tables that turn a role of the schema into a column.

A walk keeps values in numbered registers. Those of MESSAGE end up in one row per message, those of ROW in one
row per topic-partition, those of BROKER in one row per node named. A register of kind "integer" is one slot;
a "span" is two: where the value's bytes start, and how many they are. To keep another role, add a line to
MESSAGE or ROW: nothing else changes.
"""

from typing import NamedTuple

from kdissect.protocol.records.batch_summary import SUMMARY


class Register(NamedTuple):
    """A value that is kept: the role it has in the schema, the column it becomes, and its kind."""

    role: str
    column: str
    kind: str  # "integer" | "span"


MESSAGE = (
    Register("throttle", "throttle_ms", "integer"),
    Register("acks", "acks", "integer"),
    Register("max_wait", "max_wait_ms", "integer"),
    Register("min_bytes", "min_bytes", "integer"),
    Register("replica", "replica_id", "integer"),
    Register("generation", "generation", "integer"),
    Register("producer_id", "producer_id", "integer"),
    Register("producer_epoch", "producer_epoch", "integer"),
    Register("client_id", "client_id", "span"),
    Register("group", "group", "span"),
    Register("transactional_id", "transactional_id", "span"),
    Register("coordinator_key", "coordinator_key", "span"),
    Register("coordinator_type", "coordinator_type", "integer"),
    Register("member", "member", "span"),
    Register("client_software_name", "client_software_name", "span"),
    Register("client_software_version", "client_software_version", "span"),
    Register("sasl_mechanism", "sasl_mechanism", "span"),
)
ROW = (
    Register("topic", "topic", "span"),
    Register("topic_id", "topic_id", "span"),
    Register("partition", "partition", "integer"),
    Register("error", "error_code", "integer"),
    Register("offset", "offset", "integer"),
    Register("high_watermark", "high_watermark", "integer"),
    Register("log_start_offset", "log_start_offset", "integer"),
    Register("producer_id", "producer_id", "integer"),
    Register("producer_epoch", "producer_epoch", "integer"),
    Register("records", "record_set", "span"),
)
BROKER = (
    Register("broker", "node_id", "integer"),
    Register("host", "host", "span"),
    Register("port", "port", "integer"),
)
# Roles that a topic or partition may have from the structs around it: one producer writes to all of them.
INHERITED = ("producer_id", "producer_epoch")


def slots(registers: tuple[Register, ...]) -> dict[str, int]:
    """Return the first slot of each register, by column."""
    numbers, next_slot = {}, 0
    for register in registers:
        numbers[register.column] = next_slot
        next_slot += 2 if register.kind == "span" else 1
    return numbers


def width(registers: tuple[Register, ...]) -> int:
    """Return how many slots some registers take."""
    return sum(2 if register.kind == "span" else 1 for register in registers)


MESSAGE_SLOTS, ROW_SLOTS, BROKER_SLOTS = slots(MESSAGE), slots(ROW), slots(BROKER)
MESSAGE_WIDTH, BROKER_WIDTH = width(MESSAGE), width(BROKER)
ROW_VALUES = width(ROW)  # the summary of the records follows them
ROW_WIDTH = ROW_VALUES + len(SUMMARY)
