"""`--otlp`: figures of a watch for an OpenTelemetry collector, sent by OTLP over HTTP.

The figures are those of `WatchMetrics`, which `--metrics` serves as well. `otlp_metrics` states them as
metrics of OpenTelemetry (cumulative, since the watch began), and its exporter sends them as Protobuf. A
thread does this after batches, so that no batch waits for a collector. Figures that were not sent are no
loss: the next ones contain them.
"""

import threading
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import cast

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family
from prometheus_client.samples import Sample

from kdissect.errors import UsageError
from kdissect.live.metrics import NS_PER_S, WatchMetrics
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.text import without_password

SERVICE = "kdissect"
PATH = "/v1/metrics"  # that collectors listen at (OTLP/HTTP)
CALL_SECONDS = 10.0
LEAST_SECONDS = 1.0  # between two exports
CUMULATIVE = AggregationTemporality.CUMULATIVE
NOT_KNOWN = cast("float", None)  # the exporter leaves out the least and the greatest value then


class OtlpExport:
    """Sends figures to a collector until `close`. `notice` gets a sentence when that begins to fail."""

    def __init__(self, url: str, notice: Callable[[str], None]) -> None:
        """Begin to wait for batches. Raise UsageError for what is no URL."""
        self.endpoint, self._notice = endpoint_of(url), notice
        self._metrics = WatchMetrics()
        self._exporter = OTLPMetricExporter(endpoint=self.endpoint, timeout=CALL_SECONDS)
        self._began_ns = time.time_ns()
        self._changed, self._closing = threading.Event(), threading.Event()
        self._fails = False
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def account(self, report: BatchReport) -> None:
        """Add a batch. This never waits for the collector."""
        self._metrics.account(report)
        self._changed.set()

    def close(self) -> None:
        """Send the last figures, for CALL_SECONDS at most, and end."""
        self._closing.set()
        self._changed.set()
        self._thread.join(CALL_SECONDS)
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._changed.wait()
            self._changed.clear()
            self._send()
            self._closing.wait(LEAST_SECONDS)
        if self._changed.is_set():
            self._send()

    def _send(self) -> None:
        data = otlp_metrics(self._metrics.collect(), self._began_ns, time.time_ns())
        try:
            is_sent = self._exporter.export(data, CALL_SECONDS * 1e3) is MetricExportResult.SUCCESS
        except Exception:  # noqa: BLE001 - whatever the libraries below raise, the watch goes on
            is_sent = False
        if not is_sent and not self._fails:
            where = without_password(self.endpoint)
            self._notice(f"--otlp: {where} does not take metrics: they are sent again after the next batches")
        self._fails = not is_sent


def endpoint_of(url: str) -> str:
    """Return the URL that metrics are posted to. Raise UsageError.

    >>> endpoint_of("http://collector:4318")
    'http://collector:4318/v1/metrics'
    """
    try:
        parts = urllib.parse.urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UsageError(f"--otlp: {without_password(url)} is not a URL such as http://collector:4318")
    if parts.username or parts.password:
        raise UsageError("--otlp: a URL must not hold a login: OTEL_EXPORTER_OTLP_HEADERS takes it")
    return parts._replace(path=PATH).geturl() if parts.path in {"", "/"} else url


def otlp_metrics(families: Iterable[Family], began_ns: int, now_ns: int) -> MetricsData:
    """Return families of prometheus-client as metrics of OpenTelemetry, since a time and at a time."""
    metrics = [
        Metric(family.name, family.documentation, "", data)
        for family in families
        if (data := _data(family, began_ns, now_ns)).data_points
    ]
    resource = Resource({"service.name": SERVICE})
    scope = ScopeMetrics(InstrumentationScope(SERVICE), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _data(family: Family, began_ns: int, now_ns: int) -> Sum | Gauge | Histogram:
    if family.type == "histogram":
        return Histogram(list(_histograms(family.samples, began_ns, now_ns)), CUMULATIVE)
    points = [NumberDataPoint(one.labels, began_ns, now_ns, float(one.value)) for one in family.samples]
    if family.type == "counter":
        return Sum(points, CUMULATIVE, is_monotonic=True)
    return Gauge(points)


def _histograms(samples: Sequence[Sample], began_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = defaultdict(list)
    for one in samples:
        series[tuple((name, value) for name, value in one.labels.items() if name != "le")].append(one)
    for labels, of_series in series.items():
        buckets = [one for one in of_series if one.name.endswith("_bucket")]
        below = [0, *(int(one.value) for one in buckets)]
        yield HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            count=below[-1],
            sum=next(float(one.value) for one in of_series if one.name.endswith("_sum")),
            bucket_counts=[after - before for before, after in pairwise(below)],
            explicit_bounds=[float(one.labels["le"]) for one in buckets[:-1]],
            min=NOT_KNOWN,
            max=NOT_KNOWN,
            exemplars=[_exemplar(one) for one in buckets if one.exemplar is not None],
        )


def _exemplar(sample: Sample) -> Exemplar:
    example = sample.exemplar
    assert example is not None
    time_ns = round(float(example.timestamp or 0) * NS_PER_S)
    return Exemplar(dict(example.labels), example.value, time_ns)


@contextmanager
def exported(url: str, notice: Callable[[str], None]) -> Iterator[OtlpExport]:
    """Send figures to a collector until the end of the `with` block. Raise UsageError."""
    export = OtlpExport(url, notice)
    try:
        yield export
    finally:
        export.close()
