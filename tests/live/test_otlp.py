"""A collector gets by OTLP what a scrape of `--metrics` gets."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from kdissect.errors import UsageError
from kdissect.live.metrics import WatchMetrics
from kdissect.live.otlp import endpoint_of, exported
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_step import BatchFigures
from kdissect.spark.watch.batch_store import Commit
from tests.helpers.batch_partials import BatchPartials
from tests.live.test_call_series import batches  # noqa: F401 - a fixture
from tests.live.test_metrics import INCIDENTS


class Collector:
    """A server that keeps the metrics that it gets, as parsed."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.code = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    data = gzip.decompress(data)
                assert self.path == "/v1/metrics"
                assert self.headers["Content-Type"] == "application/x-protobuf"
                if collector.code == 200:
                    collector.requests.append(ExportMetricsServiceRequest.FromString(data))
                self.send_response(collector.code)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def last(self) -> dict[str, Metric]:
        (resource,) = self.requests[-1].resource_metrics
        (attribute,) = resource.resource.attributes
        assert (attribute.key, attribute.value.string_value) == ("service.name", "kdissect")
        (scope,) = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def reports(batches: list[BatchPartials]) -> Iterator[BatchReport]:  # noqa: F811
    for number, batch in enumerate(batches):
        commit = Commit(number, now_ns=5 * 10**9, incidents=INCIDENTS)
        found = batch.finished, batch.unfinished
        yield BatchReport(commit, BatchFigures(open=7), 3, 1, 0.5, [], [], [], *found, dropped_packets=2)


def test_a_collector_has_the_figures_of_a_scrape(
    collector: Collector,
    batches: list[BatchPartials],  # noqa: F811
) -> None:
    scraped, notices = WatchMetrics(), list[str]()
    with exported(collector.url, notices.append) as export:
        for report in reports(batches):
            export.account(report)
            scraped.account(report)
    metrics = collector.last()
    assert notices == []
    for family in scraped.collect():
        if not family.samples:
            continue
        metric = metrics.pop(family.name)
        assert metric.description == family.documentation
        if family.type == "histogram":
            assert metric.histogram.aggregation_temporality == (
                AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
            )
            for point in metric.histogram.data_points:
                labels = {one.key: one.value.string_value for one in point.attributes}
                same = [one for one in family.samples if labels.items() <= one.labels.items()]
                buckets = [one for one in same if one.name.endswith("_bucket")]
                assert point.count == buckets[-1].value
                assert list(point.explicit_bounds) == [float(one.labels["le"]) for one in buckets[:-1]]
                counts = list(point.bucket_counts)
                assert [sum(counts[: end + 1]) for end in range(len(counts))] == [
                    one.value for one in buckets
                ]
                assert point.sum == next(one.value for one in same if one.name.endswith("_sum"))
                assert not point.HasField("min")
                examples = {
                    tuple((a.key, a.value.string_value) for a in one.filtered_attributes): one.as_double
                    for one in point.exemplars
                }
                assert examples == {
                    tuple(one.exemplar.labels.items()): one.exemplar.value for one in buckets if one.exemplar
                }
                assert 0 < point.start_time_unix_nano < point.time_unix_nano
            assert len(metric.histogram.data_points) > 3
        else:
            is_counter = family.type == "counter"
            points = (metric.sum if is_counter else metric.gauge).data_points
            assert not is_counter or metric.sum.is_monotonic
            found = [
                ({one.key: one.value.string_value for one in point.attributes}, point.as_double)
                for point in points
            ]
            assert found == [(one.labels, one.value) for one in family.samples]
    assert metrics == {}


def test_a_collector_that_fails_is_one_notice(
    collector: Collector,
    batches: list[BatchPartials],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kdissect.live.otlp.LEAST_SECONDS", 0.0)
    collector.code = 400
    notices: list[str] = []
    first, last = list(reports(batches))[:2]
    with exported(collector.url, notices.append) as export:
        for _ in range(3):
            export.account(first)
        while not notices:
            pass
        collector.code = 200
        export.account(last)
    (notice,) = notices
    assert notice.startswith(f"--otlp: {collector.url}/v1/metrics does not take metrics")
    assert collector.last()["kdissect_files"].sum.data_points[0].as_double == 12


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("collector:4318", "is not a URL"),
        ("ftp://collector", "is not a URL"),
        ("http://", "is not a URL"),
        ("http://collector:99999", "is not a URL"),
        ("http://user:secret@collector:4318", "must not hold a login"),
    ],
)
def test_what_is_no_place_for_metrics_is_one_sentence(url: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as refusal:
        endpoint_of(url)
    assert "secret" not in str(refusal.value)


def test_a_path_of_the_user_stays() -> None:
    assert endpoint_of("https://collector/") == "https://collector/v1/metrics"
    assert endpoint_of("https://collector/otlp/metrics?x=1") == "https://collector/otlp/metrics?x=1"
