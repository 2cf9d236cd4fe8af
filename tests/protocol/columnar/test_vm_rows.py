"""`protocol.columnar.vm_rows`: which rows are written, where there is room for them and where not."""

import pytest

from kdissect.protocol.columnar import vm_rows
from kdissect.protocol.columnar.vm import walk
from kdissect.protocol.columnar.vm_state import OWNER, Reason
from tests.protocol.columnar.walked import PARTITIONS, Walked


def test_a_message_whose_rows_do_not_fit_is_walked_again() -> None:
    data = bytes.fromhex("00000002 00000007 00000008")
    walked = Walked(PARTITIONS, data, data, data, room=5)
    assert walked.done == 2
    assert walked.used.tolist() == [4, 0, 6, 0, 0, 0]
    assert walked.rows[:4, OWNER].tolist() == [0, 0, 1, 1]


def test_rows_of_one_message_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(walk, "py_func"):
        pytest.skip("the limit is compiled in")
    monkeypatch.setattr(vm_rows, "MOST_ROWS", 1)
    walked = Walked(PARTITIONS, bytes.fromhex("00000002 00000007 00000008"))
    assert walked.fault[0] == Reason.TOO_MANY
