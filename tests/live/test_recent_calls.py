"""The last minute by API, client, broker, topic and connection."""

import pytest

from kdissect.live.call_series import LATENCY_BOUNDS_NS
from kdissect.live.recent_calls import BEYOND_NS, DIMENSIONS, WINDOW_NS, RecentCalls
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_step import BatchFigures
from kdissect.spark.watch.batch_store import Commit
from tests.helpers.batch_partials import BatchPartials
from tests.live.test_call_series import batches, total  # noqa: F401 - a fixture


def report(batch: BatchPartials, end_ns: int) -> BatchReport:
    figures = BatchFigures(rows={"exchanges": 10}, latency={100: 10})
    found = batch.finished, batch.unfinished
    return BatchReport(Commit(now_ns=end_ns), figures, 1, 2 * 10**9, 0.1, [], [], [], *found)


def test_rows_have_the_rates_of_the_window(batches: list[BatchPartials]) -> None:  # noqa: F811
    calls = RecentCalls()
    for number, batch in enumerate(batches):
        calls.add(report(batch, number))
    exchanges = total([batch.finished for batch in batches], "exchanges")
    for dimension in ("api", "client", "broker", "group", "connection"):
        rows = calls.rows(dimension, "per_second")
        assert sum(row.per_second for row in rows) == pytest.approx(exchanges / (2 * len(batches)))
        assert rows == sorted(rows, key=lambda row: -row.per_second)
    produce = next(row for row in calls.rows("api", "bytes") if row.name == "Produce")
    assert produce.p50_ns is not None
    assert produce.p99_ns is not None
    assert produce.p50_ns <= produce.p99_ns
    assert list(calls.rates) == [5] * len(batches)


def test_calls_longer_than_every_bound_are_not_said_to_be_within_it(
    batches: list[BatchPartials],  # noqa: F811
) -> None:
    calls = RecentCalls()
    calls.add(report(batches[0], 0))
    longest = [0] * len(LATENCY_BOUNDS_NS) + [7]
    for sums in calls._batches[0].series.values():
        sums.by_bound = longest
    assert {row.p99_ns for row in calls.rows("api", "p99_ns")} == {BEYOND_NS}


def test_old_batches_leave_the_window(batches: list[BatchPartials]) -> None:  # noqa: F811
    calls = RecentCalls()
    calls.add(report(batches[0], 0))
    calls.add(report(batches[1], WINDOW_NS))
    exchanges = total([batches[1].finished], "exchanges")
    assert sum(row.per_second for row in calls.rows("api", "errors")) == pytest.approx(exchanges / 2)


def test_a_detail_adds_up_to_its_row(batches: list[BatchPartials]) -> None:  # noqa: F811
    calls = RecentCalls()
    for number, batch in enumerate(batches):
        calls.add(report(batch, number))
    for dimension in DIMENSIONS:
        for row in calls.rows(dimension, "per_second"):
            detail = calls.detail(dimension, row.name)
            assert detail.total == row
            assert sum(one.per_second for one in detail.by_api) == pytest.approx(row.per_second)
            assert sum(detail.rates) / len(batches) == pytest.approx(row.per_second)
            assert len(detail.p99s_ns) == len(batches)
