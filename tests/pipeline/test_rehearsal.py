"""The little capture that workers warm up on must exercise what real captures do."""

from kdissect.pipeline.rehearsal import CAPTURE, rehearse
from kdissect.report.compose import compose
from kdissect.report.summary import CaptureFacts


def test_it_has_requests_answers_partitions_and_records() -> None:
    summary = compose(rehearse(), CaptureFacts())
    assert {api.api_name for api in summary.apis} > {"ApiVersions", "Produce", "JoinGroup", "Heartbeat"}
    assert sum(use.records for topic in summary.topics for use in topic.uses) > 0
    assert summary.faults == ()


def test_it_is_small() -> None:
    assert CAPTURE.stat().st_size < 20_000
