"""Partials do not depend on how rows were dealt out: any batches, any order, through Arrow and back."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdissect.report import partials
from kdissect.report.aggregate.network_tables import STANDSTILLS
from kdissect.report.aggregate.partial_rows import join_rows, roll_up, sort_rows
from kdissect.report.aggregate.partial_tables import CALLS, PARTIAL_TABLES
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import (
    EMPTY,
    PARTIAL,
    Partial,
    from_arrow,
    merge,
    summarise,
    to_arrow,
)
from kdissect.report.timeline.signal_tables import WAITS
from kdissect.tables.array_batch import ArrayBatch, array_batch
from tests.helpers import synthetic_tables as synthetic


def rows_of(partial: Partial):
    """Return a partial as sorted rows, whose order says nothing."""
    return {name: sorted(map(repr, partial.table(part).to_pylist())) for name, part in PARTIAL_TABLES.items()}


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(0, 300))
def test_any_batches_in_any_order_give_the_same_partial(seed, calls, exchanges):
    rng = np.random.default_rng(seed)
    whole = synthetic.tables(rng, exchanges, connections=5, topics=3)
    # Orphans have no ordinal; without one a partition cannot be dealt out with its exchange.
    dealt = [summarise(part) for part in synthetic.in_batches(rng, whole, calls)]
    left = merge(merge([EMPTY, one]) for one in dealt)
    right = merge([merge(dealt[calls // 2 :]), merge(dealt[: calls // 2])])
    at_once = summarise(whole)
    assert rows_of(left) == rows_of(right) == rows_of(at_once)
    assert build_report(left, CaptureFacts()) == build_report(at_once, CaptureFacts())


def test_through_arrow_and_back():
    rng = np.random.default_rng(5)
    dealt = synthetic.in_batches(rng, synthetic.tables(rng, 1000), 3)
    batches = [to_arrow(summarise(part)) for part in dealt]
    assert all(batch.schema == PARTIAL for batch in batches)
    shuffled = pa.Table.from_batches(batches).take([*range(5, sum(b.num_rows for b in batches)), *range(5)])
    coded = (to_arrow(summarise(part), packed=True) for part in dealt)
    assert rows_of(from_arrow(coded)) == rows_of(merge(map(summarise, dealt)))
    assert rows_of(from_arrow(shuffled.to_batches(max_chunksize=4))) == rows_of(merge(map(summarise, dealt)))


def test_partials_that_wait_are_packed_and_lead_to_the_same(monkeypatch):
    monkeypatch.setattr(partials, "LARGE_TABLE", 3)
    rng = np.random.default_rng(6)
    dealt = synthetic.in_batches(rng, synthetic.tables(rng, 600), 2)
    parts = [summarise(part) for part in dealt]
    waiting = [summarise(part, packed=True) for part in dealt]
    for part, packed in zip(parts, waiting, strict=True):
        small = {name for name, rows in part.tables.items() if rows.num_rows <= 3}
        assert 0 < len(small) < len(part.tables)
        assert {name for name, rows in packed.tables.items() if not isinstance(rows, pa.Table)} == small
    assert rows_of(merge(waiting)) == rows_of(merge(parts))
    assert rows_of(from_arrow([to_arrow(waiting[0], packed=True)])) == rows_of(parts[0])


def test_columns_stay_in_order_for_all_who_ask_later():
    rng = np.random.default_rng(8)
    partial = summarise(synthetic.tables(rng, 300))
    rows, before = rows_of(partial), partial.columns(CALLS)
    ordered = partial.ordered(CALLS)
    assert ordered.dicts() == sort_rows(CALLS, before).dicts() != before.dicts()
    assert partial.columns(CALLS) is partial.ordered(CALLS) is ordered
    assert rows_of(partial) == rows_of(merge([partial, EMPTY])) == rows
    assert sorted(map(repr, before.dicts())) == rows[CALLS.name]
    assert partial.count(CALLS) == len(before.dicts())


def test_no_rows_are_in_order():
    assert EMPTY.ordered(CALLS).rows == EMPTY.count(CALLS) == 0
    assert not EMPTY.tables


def test_tables_with_a_limit_are_added_up_in_parts(monkeypatch):
    """Many tasks with as many rows as they may have would otherwise take many times the memory."""
    most, rows_of_task = 10, 8
    monkeypatch.setattr(partials, "ALL_TABLES", {STANDSTILLS.name: replace(STANDSTILLS, most=most)})
    sizes = []
    limit = limit_rows
    monkeypatch.setattr(
        partials, "limit_rows", lambda part, table: sizes.append(table.num_rows) or limit(part, table)
    )
    rows = [{"begin_ns": number, "spans": 1} for number in range(9 * rows_of_task)]
    parts = [
        Partial({STANDSTILLS.name: pa.Table.from_pylist(rows[at : at + rows_of_task], STANDSTILLS.schema)})
        for at in range(0, len(rows), rows_of_task)
    ]
    merged = from_arrow(map(to_arrow, parts)).table(STANDSTILLS)
    assert sum(merged["spans"].to_pylist()) == len(rows)
    assert merged.num_rows <= most
    assert len(sizes) > 1
    assert max(sizes) < 2 * most + rows_of_task


@pytest.mark.parametrize("rows", [3, 5000])
def test_tables_share_connections_if_any_of_them_is_in_two(rows):
    numbers = np.repeat(np.random.default_rng(2).permutation(rows), 2)
    part = PARTIAL_TABLES["lags"]

    def table_of(connections):
        columns = {field.name: [None] * len(connections) for field in part.schema}
        return pa.table(columns | {"connection": connections}, part.schema)

    def share_none(*tables):
        return partials._share_no_connection(part, join_rows(part, tables))

    one, other = table_of(numbers), table_of(numbers + rows)
    assert share_none(one, other)
    assert not share_none(one, other, table_of(numbers[-1:]))
    assert not share_none(one, table_of([None]))  # it may meet rows without a connection


def test_record_batches_are_as_good_as_tables():
    tables = synthetic.tables(np.random.default_rng(6), 200)
    batches = {name: table.combine_chunks().to_batches()[0] for name, table in tables.items()}
    assert rows_of(summarise(batches)) == rows_of(summarise(tables))


def test_nothing_at_all():
    assert summarise({}).tables == {}
    assert merge([]) == EMPTY
    assert from_arrow([]) == EMPTY
    assert from_arrow([to_arrow(EMPTY)]) == EMPTY
    empty = {
        name: table.slice(0, 0) for name, table in synthetic.tables(np.random.default_rng(7), 10).items()
    }
    assert summarise(empty).tables == {}


@pytest.mark.parametrize("missing", ["exchanges", "partitions", "connections", "names", "brokers"])
def test_any_table_may_be_absent(missing):
    tables = {
        name: table
        for name, table in synthetic.tables(np.random.default_rng(8), 300).items()
        if name != missing
    }
    summary = build_report(summarise(tables), CaptureFacts())
    assert summary.totals.exchanges == (0 if missing == "exchanges" else 300)
    assert bool(summary.connections.count) == (missing != "connections")


def test_partitions_whose_exchange_is_elsewhere_keep_their_volume():
    tables = synthetic.tables(np.random.default_rng(9), 300)
    torn = tables | {"exchanges": tables["exchanges"].slice(0, 1)}
    whole, found = (build_report(summarise(some), CaptureFacts()) for some in (tables, torn))

    def volume(summary):
        return {(t.topic, use.api_key): use.record_bytes for t in summary.topics for use in t.uses}

    assert volume(whole) == volume(found)


def test_columns_are_the_same_for_all_who_ask():
    whole = summarise(synthetic.tables(np.random.default_rng(8), 300))
    packed = from_arrow([to_arrow(whole, packed=True)])
    for part in PARTIAL_TABLES.values():
        rows = sorted(map(repr, whole.table(part).to_pylist()))
        assert sorted(map(repr, packed.columns(part).dicts())) == rows
        assert packed.columns(part) is packed.columns(part)


def waits_of(task: int, rows: int, repeated: bool = False):
    """Return requests of a task that wait; without connections of its own, they are those of task 0."""
    columns = {
        "connection": [(0 if repeated else task) * 1000 + row // 2 for row in range(rows)],
        "begin_step": [row % 7 for row in range(rows)],
        "end_step": [None if row % 3 == 0 else row % 7 + row % 5 for row in range(rows)],
        "wait_ns": [row + task for row in range(rows)],
        "exchanges": [1] * rows,
    }
    batch = pa.Table.from_pylist(
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        schema=SMALL_WAITS.schema,
    )
    return limit_rows(SMALL_WAITS, roll_up(SMALL_WAITS, batch))


SMALL_WAITS = replace(WAITS, most=20)


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("rows", [(5, 6), (18, 17), (30, 40, 3)])
def test_limited_tables_of_tasks_become_what_grouping_all_rows_makes_of_them(monkeypatch, rows, repeated):
    found = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(partials, "_share_no_connection", lambda _part, _rows: False)
        tables = [waits_of(task, count, repeated) for task, count in enumerate(rows)]
        together = partials._together(SMALL_WAITS, tables)
        found.append(sorted(map(repr, together.to_pylist())))
    assert found[0] == found[1]
    assert len(found[0]) <= SMALL_WAITS.most


@pytest.mark.parametrize(
    ("numbers", "apart"),
    [
        (([1, 1, 2], [3]), True),
        (([1, 2], [2, 3]), False),
        (([1, None], [2]), False),
        (([None], [None]), False),
        (([], [4]), True),
    ],
)
def test_connections_tell_whether_rows_of_tables_can_meet(numbers, apart):
    tables = [pa.table({"connection": pa.array(own, pa.int64())}) for own in numbers]
    columns = [array_batch(table.to_batches()[0], table.schema).parts for table in tables if table.num_rows]
    parts = {"connection": [part["connection"][0] for part in columns]}
    together = ArrayBatch(parts, tables[0].schema, sum(table.num_rows for table in tables))
    assert partials._share_no_connection(CALLS, together) == apart
    assert not partials._share_no_connection(replace(CALLS, most=5), together)
