"""When a compiled loop pays, and the arrays that it is given."""

import numpy as np
import pytest

from kdissect.jit import many_rows
from kdissect.jit.many_rows import MANY_ROWS, ROWS_ONCE_LOADED, are_many, read_only
from kdissect.jit.rows import COMPILED


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_rows._Bound, "rows", MANY_ROWS)


def test_few_rows_go_the_plain_way_and_many_do_not_where_loops_are_compiled() -> None:
    assert not are_many(MANY_ROWS - 1)
    assert are_many(MANY_ROWS) == COMPILED


def test_fewer_rows_are_many_once_loops_are_loaded() -> None:
    are_many(MANY_ROWS)
    assert are_many(ROWS_ONCE_LOADED) == COMPILED
    assert not are_many(ROWS_ONCE_LOADED - 1)
    assert are_many(ROWS_ONCE_LOADED) == COMPILED


def test_arrays_are_contiguous_views_that_cannot_be_written() -> None:
    column = np.arange(12).reshape(3, 4)[:, 1]
    taken = read_only(column)
    assert taken.flags.c_contiguous
    assert not taken.flags.writeable
    assert taken.tolist() == [1, 5, 9]
    own = np.arange(3)
    assert np.shares_memory(own, read_only(own))
    assert own.flags.writeable
