"""Which values the columnar reader keeps, and where: the tables that turn a role of the schema into a column.

A walk keeps values in numbered registers. Those of MESSAGE end up in one row per message, those of ROW in
one row per topic-partition, those of BROKER in one row per node named. A register of kind "integer" is one
slot; a "span" is two: where the value's bytes start, and how many they are. `protocol.schema.field_roles`
says which roles are kept: to keep another one, name its column there.
"""

from typing import Literal, NamedTuple

from kdissect.protocol.records.batch_summary import SUMMARY
from kdissect.protocol.schema.field_roles import ROLES, Kind


class Register(NamedTuple):
    """A value that is kept: the role it has in the schema, the column it becomes, and its kind."""

    role: str
    column: str
    kind: Kind


def _registers(where: Literal["message", "row", "broker"]) -> tuple[Register, ...]:
    """Return the registers of the roles that are kept there."""
    kept = ((role, getattr(meaning, where), meaning.kind) for role, meaning in ROLES.items())
    return tuple(Register(role, column, kind) for role, column, kind in kept if column)


MESSAGE, ROW, BROKER = _registers("message"), _registers("row"), _registers("broker")
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
ROW_VALUES = width(ROW)
SUMMARY_AT = ROW_VALUES  # behind them: the row of the summary of its records, -1 without records
ROW_WIDTH = ROW_VALUES + 1
SUMMARY_ROW = len(SUMMARY)  # of a summary, behind its numbers: the row that it is about
SUMMARY_WIDTH = len(SUMMARY) + 1
