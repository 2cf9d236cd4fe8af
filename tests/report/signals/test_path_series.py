"""Paths as series of steps: ports are added up, directions are those of hosts."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.partials import summarise
from kdissect.report.signals.path_series import PathSeries, common_host
from kdissect.tables.schemas import TCP_SPANS, TCP_STEPS
from tests.helpers.made_paths import BEGIN, MS, SECOND, standstill, step
from tests.helpers.report_rows import Row

A, B = "10.1.0.1", "10.0.0.1"


def series_of(steps: Sequence[Row], spans: Sequence[Row] = ()) -> PathSeries:
    """Return the series of some rows."""
    partial = summarise(
        {
            "tcp_steps": pa.Table.from_pylist(list(steps), schema=TCP_STEPS),
            "tcp_spans": pa.Table.from_pylist(list(spans), schema=TCP_SPANS),
        }
    )
    return PathSeries(
        cast(
            "Any",
            SimpleNamespace(
                rows=lambda part, *names: partial.columns(part).dicts(*names), table=partial.columns
            ),
        )
    )


def test_ports_and_roles_of_a_direction_are_added_up() -> None:
    rows = [
        step(A, B, True, 3, ack_min_ns=5 * MS),
        step(A, B, True, 3, server_port=9093, ack_min_ns=2 * MS, ack_max_ns=9 * MS, largest_acked=700),
        step(B, A, False, 3, first_ns=BEGIN + 3 * SECOND),
        step(B, A, True, 4),
    ]
    series = series_of(rows)
    assert set(series.steps) == {(A, B), (B, A)}
    (one,) = series.steps[A, B]
    assert (one.segments, one.trip_ns, one.longest_ns, one.largest_acked) == (30, MS // 10, 9 * MS, 700)
    assert one.first_ns == BEGIN + 3 * SECOND
    assert [heard[0] for heard in series.heard((A, B))] == [BEGIN + 3 * SECOND, BEGIN + 4 * SECOND + MS]


def test_standstills_have_a_sender() -> None:
    spans = [standstill(A, B, False, 2000, 3000), standstill(A, B, True, 1000, 2000)]
    found = series_of([], spans).standstills
    assert [(one.sender, one.receiver) for one in found] == [(A, B), (B, A)]


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "through"), [(900, 6100, True), (1500, 6100, False), (900, 5000, False)]
)
def test_request_that_waits_through_a_span_and_is_answered(begin_ms: int, end_ms: int, through: bool) -> None:
    row = {
        "first_begin_ns": BEGIN + begin_ms * MS, "last_end_ns": BEGIN + end_ms * MS, "connection": 7,
        "begin_step": 0,
    }  # fmt: skip
    waits = TableColumns(pa.Table.from_pylist([row]))
    facts = SimpleNamespace(rows=lambda _table: np.array([3]))
    context = SimpleNamespace(facts=facts, table=lambda _part: waits)
    context.shared = lambda make: make(context)
    series = PathSeries(cast("Any", context))
    span = BEGIN + SECOND, BEGIN + 6 * SECOND
    assert series.answered_after(np.array([3, 4]), *span) is through
    assert not series.answered_after(np.array([4]), *span)


def test_a_host_that_pairs_have_in_common() -> None:
    assert common_host([(A, B), ("10.0.0.2", A)]) == A
    assert common_host([(A, B), (B, A)]) is None
    assert common_host([(A, B), ("10.0.0.2", "10.0.0.3")]) is None
