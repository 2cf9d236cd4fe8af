"""The roles that are kept, and the slots in which they are kept."""

import pytest

from kdissect.protocol.columnar.registers import (
    BROKER,
    BROKER_WIDTH,
    INHERITED,
    MESSAGE,
    MESSAGE_WIDTH,
    ROW,
    ROW_VALUES,
    ROW_WIDTH,
    SUMMARY_WIDTH,
    Register,
    slots,
    width,
)
from kdissect.protocol.records.batch_summary import SUMMARY
from kdissect.protocol.schema.definition import every_field
from kdissect.protocol.schema.field_roles import ROLES
from tests.helpers.every_message import REQUESTS_AND_RESPONSES

TABLES = {"message": MESSAGE, "row": ROW, "broker": BROKER}
SPANS = {"string", "int16_string", "bytes", "records", "uuid"}


def test_an_integer_takes_one_slot_and_a_span_two() -> None:
    registers = (
        Register("acks", "a", "integer"),
        Register("group", "b", "span"),
        Register("port", "c", "integer"),
    )
    assert slots(registers) == {"a": 0, "b": 1, "c": 3}
    assert width(registers) == 4
    assert (slots(()), width(())) == ({}, 0)


@pytest.mark.parametrize("registers", TABLES.values(), ids=TABLES)
def test_columns_are_unique_and_roles_exist(registers: tuple[Register, ...]) -> None:
    columns = [register.column for register in registers]
    assert len(set(columns)) == len(columns)
    assert {register.role for register in registers} <= set(ROLES)


@pytest.mark.parametrize("registers", TABLES.values(), ids=TABLES)
def test_the_kind_of_a_register_fits_every_field_of_its_role(registers: tuple[Register, ...]) -> None:
    for register in registers:
        types = {
            field.type
            for message in REQUESTS_AND_RESPONSES
            for _, field in every_field(message)
            if field.role == register.role and not field.array
        }
        assert types, register.role
        assert (types <= SPANS) if register.kind == "span" else not types & SPANS, register.role


def test_what_is_inherited_is_kept_of_messages_and_of_rows() -> None:
    for registers in (MESSAGE, ROW):
        assert set(INHERITED) <= {register.role for register in registers}


def test_widths_count_all_slots_and_the_summary_of_records() -> None:
    assert (width(MESSAGE), width(ROW), width(BROKER)) == (MESSAGE_WIDTH, ROW_VALUES, BROKER_WIDTH)
    assert ROW_VALUES + 1 == ROW_WIDTH
    assert len(SUMMARY) + 1 == SUMMARY_WIDTH
