"""Series of calls add up to what the batches have, within a bound on labels."""

from pathlib import Path

import pytest

from kdissect.live import call_series
from kdissect.live.call_series import OTHER, CallLabels, CallSeries
from kdissect.report.aggregate.partial_tables import CALLS, LATENCIES
from kdissect.report.partials import Partial
from tests.helpers.batch_partials import BatchPartials, batch_partials, grid_before, incident_index


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> list[BatchPartials]:
    folder: Path = tmp_path_factory.mktemp("incident")
    index = incident_index("broker-frozen-1", folder, 2)
    return list(batch_partials(index, 2, grid_before(index)))


def total(partials: list[Partial], column: str) -> int:
    return sum(sum(partial.table(CALLS)[column].to_pylist()) for partial in partials)


def test_sums_are_those_of_the_partials(batches: list[BatchPartials]) -> None:
    series = CallSeries()
    for batch in batches:
        series.add(batch.finished, batch.unfinished)
    sums = series.series.values()
    finished = [batch.finished for batch in batches]
    for name in ("exchanges", "errors", "request_bytes", "response_bytes"):
        assert sum(getattr(one, name) for one in sums) == total(finished, name)
    timed = 0
    for partial in finished:
        rows = partial.table(LATENCIES).to_pylist()
        timed += sum(row["count"] for row in rows if not row["idle_wait"])
    assert sum(sum(one.by_bound) for one in sums) == timed > 0
    assert {labels.broker for labels in series.series} >= {"127.0.0.1:39092"}
    assert any(labels.api == "Produce" and labels.client for labels in series.series)


def test_labels_are_bounded(batches: list[BatchPartials], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_series, "MOST_SERIES", 3)
    monkeypatch.setattr(call_series, "MOST_VALUES", 2)
    series = CallSeries()
    for batch in batches:
        series.add(batch.finished, batch.unfinished)
    assert len(series.series) <= 4
    assert CallLabels(*[OTHER] * 4) in series.series
    exchanges = total([batch.finished for batch in batches], "exchanges")
    assert sum(one.exchanges for one in series.series.values()) == exchanges
