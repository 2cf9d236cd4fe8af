"""Findings are ordered by severity."""

from kdissect.report.build.build_report import build_report
from kdissect.report.model.findings import Severity
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import (
    EMPTY,
)
from tests.helpers.report_rows import HEARTBEAT, PRODUCE, SASL, failing, many, report


def test_most_severe_first():
    everything = report(
        [*failing(1, SASL, 58, [0]), *many(1, PRODUCE, 1, acks=1, number=2), *failing(1, HEARTBEAT, 25, [5])]
    )
    assert [finding.severity for finding in everything.findings] == [
        Severity.CRITICAL,
        Severity.WARNING,
        Severity.NOTE,
    ]


def test_nothing_in_nothing():
    assert build_report(EMPTY, CaptureFacts()).findings == ()
