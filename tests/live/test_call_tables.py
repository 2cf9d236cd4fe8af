"""Calls by topic and connection: sums are those of the partials, and the tables are bounded."""

import pyarrow as pa
import pytest

from kdissect.live import call_tables
from kdissect.live.call_series import OTHER, CallSeries
from kdissect.live.call_tables import by_connection, by_topic
from kdissect.report.aggregate.partial_tables import CALLS, TOPIC_CALLS, TOPIC_FLOWS
from kdissect.report.partials import Partial
from tests.helpers.batch_partials import BatchPartials
from tests.live.test_call_series import batches  # noqa: F401 - a fixture


def test_connections_add_up_to_all_calls(batches: list[BatchPartials]) -> None:  # noqa: F811
    for batch in batches:
        found = by_connection(batch.finished, batch.unfinished).values()
        series = CallSeries()
        series.add(batch.finished, batch.unfinished)
        for name in ("exchanges", "errors", "unanswered", "request_bytes", "response_bytes"):
            wanted = sum(getattr(one, name) for one in series.series.values())
            assert sum(getattr(one, name) for one in found) == wanted
        timed = [sum(column) for column in zip(*(one.by_bound for one in found), strict=True)]
        assert timed == [
            sum(column) for column in zip(*(one.by_bound for one in series.series.values()), strict=True)
        ]


def test_each_connection_has_its_own_calls(batches: list[BatchPartials]) -> None:  # noqa: F811
    batch = batches[0]
    rows = batch.finished.table(CALLS).to_pylist()
    names = {name for name, _ in by_connection(batch.finished, batch.unfinished)}
    assert len(names) == len({row["connection"] for row in rows}) > 3
    assert all(" 127.0.0.1:" in name and " → 127.0.0.1:" in name for name in names)


def test_topics_add_up_to_what_names_them(batches: list[BatchPartials]) -> None:  # noqa: F811
    for batch in batches:
        found = by_topic(batch.finished, {})
        calls = batch.finished.table(TOPIC_CALLS).to_pylist()
        assert sum(one.exchanges for one in found.values()) == sum(row["exchanges"] for row in calls)
        flows = batch.finished.table(TOPIC_FLOWS).to_pylist()
        assert sum(one.request_bytes for one in found.values()) == sum(row["record_bytes"] for row in flows)


def test_a_topic_that_is_named_by_its_id_gets_its_name(batches: list[BatchPartials]) -> None:  # noqa: F811
    by_id = {}
    for kind in (TOPIC_CALLS, TOPIC_FLOWS):
        table = batches[0].finished.table(kind)
        for name, values in (("topic", [None] * table.num_rows), ("topic_id", ["id-1"] * table.num_rows)):
            table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
        by_id[kind.name] = table
    assert {name for name, _ in by_topic(Partial(by_id), {"id-1": "orders"})} == {"orders"}
    assert {name for name, _ in by_topic(Partial(by_id), {})} == {"id-1"}


def test_the_busiest_names_are_kept(
    batches: list[BatchPartials],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = batches[0]
    every = by_connection(batch.finished, batch.unfinished)
    monkeypatch.setattr(call_tables, "MOST_NAMES", 2)
    few = by_connection(batch.finished, batch.unfinished)
    assert {name for name, _ in few} <= {name for name, _ in every} | {OTHER}
    assert len({name for name, _ in few}) == 3
    assert sum(one.exchanges for one in few.values()) == sum(one.exchanges for one in every.values())
    kept = min(
        sum(one.exchanges for key, one in few.items() if key[0] == name) for name, _ in few if name != OTHER
    )
    gone = {name for name, _ in every} - {name for name, _ in few}
    assert all(sum(one.exchanges for key, one in every.items() if key[0] == name) <= kept for name in gone)
    assert len({name for name, _ in by_topic(batch.finished, {})}) <= 3
