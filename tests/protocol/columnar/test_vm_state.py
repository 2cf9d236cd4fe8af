"""The numbers that the walk works with agree with the tables that they are made from."""

import numpy as np

from kdissect.jit.rows import dtype_of
from kdissect.protocol.columnar import vm_state
from kdissect.protocol.columnar.assembler import Op
from kdissect.protocol.columnar.program import compile_message
from kdissect.protocol.columnar.registers import BROKER_SLOTS, MESSAGE_WIDTH, ROW_SLOTS
from kdissect.protocol.columnar.vm_state import DEPTH, REASONS, REGISTERS, Reason, Scope, Tally, scratch
from tests.helpers.every_message import ALL_PROGRAMS


def test_reasons_are_the_same_numbers_for_kernels_and_for_people() -> None:
    assert {reason.name: reason.value for reason in Reason} == {
        reason.name: getattr(vm_state, reason.name) for reason in Reason
    }


def test_every_reason_but_none_has_a_text_of_its_own() -> None:
    assert set(REASONS) == set(Reason) - {Reason.NONE}
    assert len(set(REASONS.values())) == len(REASONS)


def test_each_register_has_a_bit_of_an_int64() -> None:
    assert REGISTERS < 63
    bits = [vm_state.TOPIC_BIT, vm_state.PARTITION_BIT, vm_state.RECORDS_BIT, vm_state.NODE_BIT]
    assert len({*bits, 1 << vm_state.PRODUCER_ID, 1 << vm_state.PRODUCER_EPOCH}) == 6
    assert 1 << MESSAGE_WIDTH + ROW_SLOTS["partition"] == vm_state.PARTITION_BIT
    assert 1 << vm_state.NODE_FIRST + BROKER_SLOTS["node_id"] == vm_state.NODE_BIT


def test_the_schema_is_never_deeper_than_the_stack() -> None:
    opening = {Op.ARRAY, Op.TAGS}
    deepest = max(
        row[4] for what in ALL_PROGRAMS for row in compile_message(*what).table.tolist() if row[0] in opening
    )
    assert deepest + 1 < DEPTH


def test_scratch_space_is_new_and_empty() -> None:
    first, second = scratch(), scratch()
    assert len(first.registers) == REGISTERS
    assert not first.registers.any()
    assert not first.summary.any()
    assert not np.shares_memory(first.registers, second.registers)
    assert {"left", "outer_limit"} <= set(dtype_of(Scope).names or ())
    assert {"first_row", "row_count"} <= set(dtype_of(Tally).names or ())
