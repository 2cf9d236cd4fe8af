"""The walk on programs made by hand: what each operation does at the edges."""

from typing import Any

import pytest

import kdissect.protocol.columnar.vm_state as state_module
from kdissect.protocol.columnar import vm_state
from kdissect.protocol.columnar.assembler import Op
from kdissect.protocol.columnar.registers import (
    ROW_SLOTS,
)
from kdissect.protocol.columnar.vm_state import (
    OWNER_WIDTH,
    PRESENT,
    VERDICT_WIDTH,
    Reason,
)
from tests.protocol.columnar.walked import PARTITIONS, Walked

FINE = (Reason.NONE, -1, -1)
INT32S: list[tuple[int, ...]] = [(Op.ARRAY, 4, 3, 4, 0), (Op.INTEGER, 4, 0, -1, 1), (Op.NEXT, 1), (Op.END,)]
TAGGED: list[tuple[int, ...]] = [
    (Op.TAGS, 6, 0, 0, 0),
    (Op.TAG, 6, 2, 0, 0),
    (Op.CASE, 3, 4),
    (Op.CASE, 9, 4),
    (Op.INTEGER, 2, 1, -1, 0),
    (Op.END_TAG, 1, 0, 0, 0),
    (Op.END,),
]
CASES: list[tuple[list[tuple[int, ...]], str, tuple[Reason, int, int]]] = [
    ([(Op.SKIP, 2), (Op.END,)], "0102", FINE),
    ([(Op.SKIP, 2), (Op.END,)], "01", (Reason.ENDS_EARLY, 0, 0)),
    ([(Op.SKIP, 2), (Op.END,)], "010203", (Reason.LEFT_OVER, 2, 1)),
    ([(Op.SIZED, 2, -1, -1), (Op.END,)], "ffff", FINE),
    ([(Op.SIZED, 2, -1, -1), (Op.END,)], "fffe", (Reason.NEGATIVE, 0, 0)),
    ([(Op.SIZED, 4, -1, -1), (Op.END,)], "0000000261", (Reason.ENDS_EARLY, 0, 0)),
    ([(Op.SIZED, 0, -1, -1), (Op.END,)], "00", FINE),
    ([(Op.SIZED, 0, -1, -1), (Op.END,)], "0361", (Reason.ENDS_EARLY, 0, 0)),
    ([(Op.SIZED, 0, -1, -1), (Op.END,)], "8080", (Reason.ENDS_EARLY, 0, 0)),
    ([(Op.SIZED, 0, -1, -1), (Op.END,)], "ffffffff7f", (Reason.VARINT, 0, 0)),
    (INT32S, "ffffffff", FINE),
    (INT32S, "00000000", FINE),
    (INT32S, "00000002 00000001 00000002", FINE),
    (INT32S, "00000002 00000001", (Reason.COUNT, 0, 0)),
    (INT32S, "7fffffff", (Reason.COUNT, 0, 0)),
    (INT32S, "fffffffe", (Reason.NEGATIVE, 0, 0)),
    ([(Op.STEP, 0, 4), (Op.END,)], "02 00000000", FINE),
    ([(Op.STEP, 0, 4), (Op.END,)], "03 00000000", (Reason.COUNT, 0, 0)),
    ([(Op.OPTION, 2), (Op.SKIP, 1), (Op.END,)], "ff", FINE),
    ([(Op.OPTION, 2), (Op.SKIP, 1), (Op.END,)], "0100", FINE),
    ([(Op.OPTION, 2), (Op.SKIP, 1), (Op.END,)], "02", (Reason.OPTION, 0, 0)),
    ([(Op.OPTION, 2), (Op.SKIP, 1), (Op.END,)], "", (Reason.ENDS_EARLY, 0, 0)),
    (TAGGED, "00", FINE),
    (TAGGED, "01 0302 0005", FINE),
    (TAGGED, "03 0302 0005 0403 010203 0902 0001", FINE),
    (TAGGED, "02 0302 0005 0302 0005", (Reason.TAG_ORDER, 5, 1)),
    (TAGGED, "01 0303 000500", (Reason.TAG_SIZE, 3, 5)),
    (TAGGED, "01 0301 00", (Reason.ENDS_EARLY, 3, 4)),
    (TAGGED, "01 0305 0005", (Reason.ENDS_EARLY, 1, 1)),
    (TAGGED, "05 0302 0005", (Reason.COUNT, 0, 0)),
    (TAGGED, "02 0302 0005", (Reason.ENDS_EARLY, 5, 1)),
    ([(Op.FALLBACK, 3), (Op.SKIP, 4), (Op.END,), (Op.SKIP, 2), (Op.END,)], "0023", FINE),
    (
        [(Op.FALLBACK, 3), (Op.SKIP, 4), (Op.END,), (Op.SKIP, 2), (Op.END,)],
        "00230000",
        (Reason.LEFT_OVER, 2, 4),
    ),
    ([(Op.FALLBACK, 3), (Op.SKIP, 4), (Op.END,), (Op.SKIP, 2), (Op.END,)], "00000000", FINE),
]


@pytest.mark.parametrize(("program", "text", "fault"), CASES)
def test_operations(program: list[tuple[int, ...]], text: str, fault: tuple[Reason, int, int]) -> None:
    assert Walked(program, bytes.fromhex(text)).fault == fault


INTEGERS = {1: ("80", -128), 2: ("8000", -(2**15)), -2: ("8000", 2**15), 4: ("80000000", -(2**31))}
INTEGERS[8] = ("8000000000000000", -(2**63))


@pytest.mark.parametrize(("kind", "raw", "value"), [(kind, *what) for kind, what in INTEGERS.items()])
def test_integers_of_every_kind(kind: int, raw: str, value: int) -> None:
    walked = Walked([(Op.INTEGER, kind, 3, -1), (Op.END,)], bytes.fromhex(raw))
    assert walked.messages[0, VERDICT_WIDTH + 3] == value
    assert walked.messages[0, PRESENT] == 1 << 3


def test_only_the_first_value_is_kept_where_it_says_so() -> None:
    data = bytes.fromhex("00000002 00000007 00000008")
    first = Walked(INT32S, data)
    last = Walked([INT32S[0], (Op.INTEGER, 4, 0, -1, 0), *INT32S[2:]], data)
    assert (first.messages[0, VERDICT_WIDTH], last.messages[0, VERDICT_WIDTH]) == (7, 8)


def test_a_loss_is_no_lie_of_the_message() -> None:
    data = bytes.fromhex("00000003 00000007 00000008 00000009")
    walked = Walked(PARTITIONS, data, lost=3)
    assert walked.fault == (Reason.CUT, 12, 1)
    assert walked.rows[:2, OWNER_WIDTH + ROW_SLOTS["partition"]].tolist() == [7, 8]
    assert walked.used[0] == 2


@pytest.mark.parametrize("lost", [1, 2, 3, 4, 5, 6, 7])
def test_a_loss_in_tagged_fields(lost: int) -> None:
    walked = Walked(TAGGED, bytes.fromhex("02 0302 0005 0402 0000"), lost=lost)
    assert walked.fault[0] == Reason.CUT


def test_errors_are_counted_and_the_first_is_kept() -> None:
    program: Any = [(Op.ARRAY, 4, 3, 2, 0), (Op.ERROR, 2, -1, -1), (Op.NEXT, 1), (Op.END,)]
    verdict = Walked(program, bytes.fromhex("00000003 0000 0005 0007")).messages[0]
    assert verdict[1:4].tolist() == [5, 2, 1]


def test_the_numbers_in_kernels_are_those_of_the_enums() -> None:
    assert {op: getattr(vm_state, f"OP_{op.name}") for op in Op} == {op: op.value for op in Op}
    reasons = {reason: getattr(state_module, reason.name) for reason in Reason}
    assert reasons == {reason: reason.value for reason in Reason}
    assert state_module.REASONS.keys() == set(Reason) - {Reason.NONE}
