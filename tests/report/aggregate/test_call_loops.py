"""The loops that count calls by class, held to the plain way with NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.report.aggregate import call_loops, calls
from kdissect.report.aggregate.call_loops import CallCounts
from kdissect.report.aggregate.calls import class_counts
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_rows import whole_numbers
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.aggregate.sound_latency import MAX_LATENCY_NS
from kdissect.tables.schemas import EXCHANGES
from tests.helpers import synthetic_tables as synthetic


def counted(monkeypatch: pytest.MonkeyPatch, table, many: bool):
    """Return the counts of each class as lists, by the loops or in the plain way."""
    monkeypatch.setattr(calls, "are_many", lambda rows: many)
    return {
        name: [array.tolist() for array in whole_numbers(column)]
        for name, column in class_counts(TableColumns(table)).items()
    }


@given(st.integers(0, 2**32), st.integers(1, 300))
def test_counts_are_those_of_the_plain_way(seed, exchanges):
    table = synthetic.tables(np.random.default_rng(seed), exchanges, connections=3)["exchanges"]
    with pytest.MonkeyPatch.context() as patch:
        assert counted(patch, table, many=True) == counted(patch, table, many=False)


def test_hostile_numbers_are_those_of_the_plain_way(monkeypatch):
    """Times, sizes and counts may be any, and a column may be null in all rows."""
    rng = np.random.default_rng(1)
    table = synthetic.tables(rng, 500, connections=2)["exchanges"]
    far = [0, 1, -1, -(1 << 62), 1 << 62, MAX_LATENCY_NS, MAX_LATENCY_NS - 1]
    for name in ("latency_ns", "response_last_ns", "request_first_ns", "request_bytes", "response_bytes"):
        kind = EXCHANGES.field(name).type
        values = rng.choice(far if kind.bit_width == 64 else far[:3], len(table))
        column = synthetic.nulls_where(values, rng.random(len(table)) < 0.2, kind)
        table = table.set_column(table.schema.get_field_index(name), name, column)
    assert counted(monkeypatch, table, many=True) == counted(monkeypatch, table, many=False)


def test_the_fields_are_the_counted_columns():
    assert [*CallCounts.__annotations__] == [*CALLS.sums, *CALLS.lowest, *CALLS.highest]
    call_loops.call_all()
