"""`--metrics`: figures of a watch in OpenMetrics, for Prometheus and others to scrape.

`WatchMetrics` is a collector of prometheus-client: it hears of every batch that counts, and a scrape gets
what there is by then. Counters begin with the run. `served` serves it over HTTP, to this machine alone unless
a host is named.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from kdissect.errors import UsageError
from kdissect.live.call_series import LATENCY_BOUNDS_NS, CallExample, CallLabels, CallSeries, CallSums
from kdissect.live.recent_lags import RecentLags
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.text import format_address

NS_PER_S = 1_000_000_000
PREFIX = "kdissect"
EXEMPLAR_CHARACTERS = 128
Bucket: TypeAlias = tuple[str, float] | tuple[str, float, Exemplar]
CALL_COUNTERS = {
    "exchanges": "Requests, each with what became of it.",
    "errors": "Exchanges whose response has an error code.",
    "unanswered": "Requests that were never answered.",
    "request_bytes": "Bytes of requests.",
    "response_bytes": "Bytes of responses.",
}


class WatchMetrics(Collector):
    """See the module's text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # scrapes come in threads of their own
        self._calls = CallSeries()
        self._lags = RecentLags()
        self._totals = {"files": 0, "batches": 0}
        self._report: BatchReport | None = None

    def account(self, report: BatchReport) -> None:
        """Add a batch."""
        with self._lock:
            self._calls.add(report.finished, report.unfinished)
            self._lags.add(report.finished, report.commit.names, report.commit.now_ns)
            self._totals["files"] += report.files
            self._totals["batches"] += 1
            self._report = report

    def collect(self) -> Iterable[Metric]:
        """Return all metrics."""
        with self._lock:
            return [
                *self._call_metrics(),
                *self._lag_metrics(),
                *self._total_metrics(),
                *self._state_metrics(),
            ]

    def _call_metrics(self) -> Iterator[Metric]:
        series = self._calls.series
        for name, text in CALL_COUNTERS.items():
            counter = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=CallLabels._fields)
            for labels, sums in series.items():
                counter.add_metric(labels, getattr(sums, name))
            yield counter
        latency = HistogramMetricFamily(
            f"{PREFIX}_latency_seconds",
            "From the last byte of a request to the first of its response; no waits by design.",
            labels=CallLabels._fields,
        )
        for labels, sums in series.items():
            latency.add_metric(labels, _buckets(sums), sums.latency_ns / NS_PER_S)
        yield latency

    def _lag_metrics(self) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            f"{PREFIX}_consumer_lag_records",
            "Records that were still to be read at the last fetches.",
            labels=("client", "topic"),
        )
        for labels, records in self._lags.sums().items():
            lag.add_metric(labels, records)
        yield lag

    def _total_metrics(self) -> Iterator[Metric]:
        for name, total in self._totals.items():
            yield CounterMetricFamily(f"{PREFIX}_{name}", f"Number of {name}.", value=total)
        report = self._report
        counted = {
            "lost_files": report.commit.lost if report else 0,
            "dropped_packets": (report and report.dropped_packets) or 0,
            "skipped_packets": (report and report.skipped_packets) or 0,
        }
        for name, total in counted.items():
            yield CounterMetricFamily(f"{PREFIX}_{name}", f"Number of {name.replace('_', ' ')}.", value=total)

    def _state_metrics(self) -> Iterator[Metric]:
        incidents = GaugeMetricFamily(
            f"{PREFIX}_incidents_open", "Incidents that last.", labels=("cause", "severity")
        )
        report = self._report
        if report is not None:
            gauges = (
                ("open_connections", "Connections that are open.", report.figures.open),
                ("state_bytes", "Size of what is carried on.", report.figures.state_bytes),
                ("capture_time_seconds", "Latest time of the captures.", report.commit.now_ns / NS_PER_S),
                ("batch_duration_seconds", "How long the last batch took.", report.seconds),
            )
            for name, text, value in gauges:
                yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)
            for key, count in _open_incidents(report).items():
                incidents.add_metric(key, count)
        yield incidents


def _buckets(sums: CallSums) -> list[Bucket]:
    """Return counts up to each bound in seconds, as a histogram of OpenMetrics has them, with exemplars."""
    bounds = [*(repr(bound / NS_PER_S) for bound in LATENCY_BOUNDS_NS), "+Inf"]
    total = 0
    counted: list[Bucket] = []
    for index, (bound, count) in enumerate(zip(bounds, sums.by_bound, strict=True)):
        total += count
        example = sums.examples.get(index)
        counted.append((bound, float(total), _exemplar(example)) if example else (bound, float(total)))
    return counted


def _exemplar(example: CallExample) -> Exemplar:
    """Return where a call is in the captures; OpenMetrics limits names and values to 128 characters."""
    packet = str(example.packet)
    room = EXEMPLAR_CHARACTERS - len("packet") - len(packet) - len("file")
    labels = {"file": Path(example.capture_file).name[-room:], "packet": packet}
    return Exemplar(labels, example.latency_ns / NS_PER_S, example.time_ns / NS_PER_S)


def _open_incidents(report: BatchReport) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for incident in (report.commit.incidents or {"log": []})["log"]:
        if not incident["closed"]:
            key = (incident["cause"], incident["severity"])
            found[key] = found.get(key, 0) + 1
    return found


@contextmanager
def served(host: str, port: int) -> Iterator[WatchMetrics]:
    """Serve metrics until the end of the `with` block. Raise UsageError if the address cannot be used."""
    metrics = WatchMetrics()
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--metrics: cannot listen on {format_address(host, port)}: {reason}") from None
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
