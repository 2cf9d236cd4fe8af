"""The events of a watch, and its lines."""

from kdissect.live.watch_events import events, text_lines
from kdissect.report.incidents.incident_log import ChangeKind, IncidentChange, KnownIncident
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_step import BatchFigures
from kdissect.spark.watch.batch_store import Commit

CHANGE = IncidentChange(
    ChangeKind.OPENED,
    KnownIncident(
        1, "broker_frozen", "critical", "server", "broker 2", 10, None, "broker 2\nfroze", (), 5, 6, 1.0
    ),
)
REPORT = BatchReport(
    Commit(batch=4, now_ns=1_792_000_000_123_000_000, lost=1),
    BatchFigures(rows={"exchanges": 1200}, unanswered=2, errors=3, latency={100: 1200}, open=40),
    files=2, span_ns=4 * 10**9, seconds=0.25, incidents=[CHANGE], notices=["a file was overwritten\n"],
)  # fmt: skip


def test_a_line_of_text_says_what_there_was() -> None:
    notice, line, incident = text_lines(REPORT)
    assert incident == "incident 1 opened: critical: broker 2\\x0afroze"
    assert notice == "missing: a file was overwritten\\x0a"
    for part in (
        "2 files",
        "1,200 exchanges (300/s)",
        "p50 100ns",
        "3 errors",
        "2 unanswered",
        "40 connections open",
    ):
        assert part in line


def test_lines_of_json_have_the_figures() -> None:
    notice, interval, incident = events(REPORT)
    assert (incident["event"], incident["change"], incident["cause"]) == (
        "incident",
        "opened",
        "broker_frozen",
    )
    assert (incident["number"], incident["end_ns"], incident["batch"]) == (1, None, 4)
    assert notice == {"event": "notice", "batch": 4, "text": "a file was overwritten\n"}
    assert (interval["event"], interval["exchanges"], interval["per_second"]) == ("interval", 1200, 300)
    assert interval["time_ns"] == REPORT.commit.now_ns
    assert interval["lost_files"] == 1


def test_a_batch_without_packets_has_no_rates() -> None:
    empty = BatchReport(Commit(batch=0), BatchFigures(), 0, 0, 0.1)
    assert events(empty)[0]["per_second"] is None
    (line,) = text_lines(empty)
    assert "0 exchanges  " in line


def test_what_an_own_capture_lost_is_told() -> None:
    report = BatchReport(Commit(), BatchFigures(), 1, 0, 0, dropped_packets=7, skipped_packets=0)
    (line,) = text_lines(report)
    assert line.endswith("  7 packets dropped by the kernel")
    assert events(report)[0]["dropped_packets"] == 7
