"""Metrics are OpenMetrics, as the parser of prometheus-client reads them."""

import json
import re
import socket
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kdissect.errors import UsageError
from kdissect.live.metrics import WatchMetrics, served
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_step import BatchFigures
from kdissect.spark.watch.batch_store import Commit
from tests.helpers.batch_partials import BatchPartials
from tests.live.test_call_series import batches, total  # noqa: F401 - a fixture

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-dashboard.json"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
INCIDENTS = {"log": [{"cause": "broker_frozen", "severity": "critical", "closed": False}]}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_scrape_has_the_figures(batches: list[BatchPartials]) -> None:  # noqa: F811
    port = free_port()
    with served("127.0.0.1", port) as metrics:
        for number, batch in enumerate(batches):
            commit = Commit(number, now_ns=5 * 10**9, incidents=INCIDENTS)
            figures = BatchFigures(open=7)
            found = batch.finished, batch.unfinished
            metrics.account(BatchReport(commit, figures, 3, 1, 0.5, [], [], [], *found, dropped_packets=2))
        request = Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": OPEN_METRICS})
        with urlopen(request, timeout=10) as response:
            assert response.headers["Content-Type"].startswith("application/openmetrics-text")
            text = response.read().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = [sample for family in families.values() for sample in family.samples]
    sums = {
        name: sum(one.value for one in samples if one.name == name) for name in {one.name for one in samples}
    }
    finished = [batch.finished for batch in batches]
    assert sums["kdissect_exchanges_total"] == total(finished, "exchanges")
    assert sums["kdissect_errors_total"] == total(finished, "errors")
    assert sums["kdissect_latency_seconds_count"] > 0
    examples = [one for one in samples if one.exemplar is not None]
    for one in examples:
        assert one.exemplar.value <= float(one.labels["le"])
        assert int(one.exemplar.labels["packet"]) > 0
        assert "pcap" in one.exemplar.labels["file"]
    assert {one.labels["api"] for one in examples} >= {"Produce", "Fetch"}
    assert (sums["kdissect_files_total"], sums["kdissect_open_connections"]) == (6, 7)
    assert (sums["kdissect_dropped_packets_total"], sums["kdissect_capture_time_seconds"]) == (2, 5)
    (incident,) = families["kdissect_incidents_open"].samples
    assert (incident.labels, incident.value) == ({"cause": "broker_frozen", "severity": "critical"}, 1)


def test_an_address_in_use_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = f"--metrics: cannot listen on 127.0.0.1:{port}: "
        with pytest.raises(UsageError, match=sentence), served("127.0.0.1", port):
            pass


def test_the_dashboard_names_metrics_that_are_there() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in re.findall(r"kdissect_\w+", query)}
    metrics = WatchMetrics()
    metrics.account(BatchReport(Commit(), BatchFigures(), 1, 1, 0.5))
    known = {family.name for family in metrics.collect()}
    assert len(queries) >= 6
    assert {re.sub("_(total|bucket|count|sum)$", "", name) for name in named} <= known
