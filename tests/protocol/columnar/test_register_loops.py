"""Columns of registers, taken by compiled loops and the plain way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.protocol.columnar import batch_reader, register_loops
from kdissect.protocol.columnar.batch_reader import Integers, Table
from kdissect.protocol.columnar.registers import ROW, ROW_SLOTS, ROW_WIDTH


def table(seed: int, rows: int) -> Table:
    """Return rows of registers with any numbers, of which any may be present."""
    random = np.random.default_rng(seed)
    wide = random.integers(-3, 1 << 40, (rows, ROW_WIDTH + 1))
    return Table(ROW, np.arange(rows), random.integers(0, 1 << 40, rows), wide[:, 1:])


@given(
    seed=st.integers(0, 99),
    places=st.lists(st.integers(-1, 4), max_size=30),
    others=st.lists(st.integers(-1, 4), min_size=30, max_size=30),
)
def test_registers_are_the_same_either_way(seed: int, places: list[int], others: list[int]) -> None:
    one, other = table(seed, 5), table(seed + 100, 5)
    rows, other_rows = np.array(places, np.int64), np.array(others[: len(places)], np.int64)
    found = []
    for many in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch_reader, "are_many", lambda _rows, many=many: many)
            first_of = Integers(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_))
            one.fill_integers("error_code", rows, *first_of)
            other.fill_integers("error_code", other_rows, *first_of)
            taken = (*first_of, *one.integers_at("offset", rows), *one.spans_at("topic", rows))
            found.append([column.tolist() for column in taken])
    assert found[0] == found[1]


def test_registers_are_those_of_the_column_of_all_rows() -> None:
    rows = table(7, 40)
    every = np.arange(40)
    for column in ("offset", "partition", "error_code"):
        assert rows.integers_at(column, every).values.tolist() == rows.integers(column).values.tolist()
        assert rows.integers_at(column, every).present.tolist() == rows.integers(column).present.tolist()
    assert rows.spans_at("topic", every).start.tolist() == rows.spans("topic").start.tolist()
    assert rows.present[3] >> ROW_SLOTS["topic"] & 1 or rows.spans_at("topic", every).start[3] == -1


def test_every_loop_can_be_called() -> None:
    register_loops.call_all()
