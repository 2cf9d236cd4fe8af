"""The report on every recorded capture says what brokers and clients themselves said
(captures/manifest.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.report.build.build_report import build_report
from kdissect.report.render.json import to_json
from kdissect.spark import jobs
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.capture_facts import capture_facts
from kdissect.spark.session import Engine
from kdissect.spark.task_tables import TableOptions
from kdissect.streams.tls.keylog import keys_for

CAPTURES = Path(__file__).parents[1] / "captures"
MANIFEST = json.loads((CAPTURES / "manifest.json").read_text())["captures"]

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=MANIFEST, ids=lambda entry: str(entry["name"]))
def told(request: pytest.FixtureRequest, engine: Engine) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest's expectation, and the report's answer."""
    found = index_captures(open_inputs([str(CAPTURES / request.param["file"])], "").files)
    treatment = TableOptions(keys=keys_for(None, found.files))
    analysis = jobs.merge_figures(
        jobs.figures(engine.context(), AnalysisWork(found.splits, treatment=treatment))
    )
    report = to_json(build_report(analysis.partial, capture_facts(found, analysis.counts)))
    return request.param, json.loads(report)


def test_packets_and_connections(told: tuple[dict[str, Any], dict[str, Any]]) -> None:
    expected, report = told
    assert report["capture"]["packets"] == expected["packets"]
    assert report["connections"]["count"] == expected["connections"]["attempted"]


def test_requests_by_api_and_version(told: tuple[dict[str, Any], dict[str, Any]]) -> None:
    expected, report = told
    found = {(row["api_key"], row["api_version"]): row for row in report["apis"]}
    wanted = {(row["api_key"], row["api_version"]): row for row in expected["expected"]["requests"]}
    assert wanted.keys() <= found.keys()
    if expected["exact"]:
        assert wanted.keys() == found.keys()
    for key, row in wanted.items():
        if expected.get("dropped_packets"):  # brokers know of what the capture lost
            assert found[key]["exchanges"] <= row["requests"]
            continue
        requests = found[key]["exchanges"] - found[key]["orphan_responses"]
        at_most = row["requests_at_most"]
        assert row["requests"] <= requests
        assert at_most is None or requests <= at_most
        # A broker that answers a client which is gone has answered in its log only: the wire shows the
        # request alone.
        gone = found[key]["unanswered_closed"]
        assert row["answered"] - gone <= found[key]["answered"] <= row["answered"]


def test_errors(told: tuple[dict[str, Any], dict[str, Any]]) -> None:
    expected, report = told
    if expected["expected"]["errors"] is None:
        pytest.skip("the brokers of this capture did not log errors")
    found = {(row["api_key"], row["error_name"]): row["exchanges"] for row in report["errors"]}
    if not expected["exact"]:  # what comes before a client is known stands in no broker's request log
        logged = {row["api_key"] for row in expected["expected"]["requests"]}
        found = {row: count for row, count in found.items() if row[0] in logged}
    wanted = {(row["api_key"], row["error_name"]): row["responses"] for row in expected["expected"]["errors"]}
    assert found.keys() <= wanted.keys()
    for row, logged_times in wanted.items():
        # As with requests: an answer to a client that is gone stands in the broker's log only.
        if expected.get("dropped_packets"):
            assert found.get(row, 0) <= logged_times
            continue
        gone = sum(api["unanswered_closed"] for api in report["apis"] if api["api_key"] == row[0])
        assert logged_times - gone <= found.get(row, 0) <= logged_times, row


def test_nothing_is_lost(told: tuple[dict[str, Any], dict[str, Any]]) -> None:
    expected, report = told
    assert (report["connections"]["lost_bytes"] > 0) == bool(expected.get("dropped_packets"))
    assert expected.get("dropped_packets") or report["totals"]["orphan_responses"] == 0
    assert {fault["shape"] for fault in report["faults"]} <= {
        "response: the rest of the frame is missing at byte # in throttle_time_ms",
        "response: the rest of the frame is missing at byte # in responses.partitions.records",
        "response: the rest of the frame is missing at byte # in responses.partitions",
    }
