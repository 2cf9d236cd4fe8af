"""The command `watch`: what it refuses, and the lines that it prints."""

import json
from pathlib import Path

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.watch import _json_lines, _settings, _text_lines
from kdissect.report.incidents.incident_log import ChangeKind, IncidentChange, KnownIncident
from kdissect.spark.watch.batch_step import BatchFigures
from kdissect.spark.watch.batch_store import Commit
from kdissect.spark.watch.watch_query import BatchReport
from tests.helpers.command import assert_one_sentence, kdissect

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
    notice, line, incident = _text_lines(REPORT)
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
    notice, interval, incident = map(json.loads, _json_lines(REPORT))
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
    assert json.loads(_json_lines(empty)[0])["per_second"] is None
    (line,) = _text_lines(empty)
    assert "0 exchanges  " in line


def test_options_become_settings(tmp_path: Path) -> None:
    arguments = parse(
        ["watch", str(tmp_path), "--every", "1s", "--settle", "500ms", "--until-idle", "2m", "--port", "9092"]
    )
    settings = _settings(arguments)
    assert (settings.every_s, settings.settle_s, settings.until_idle_s) == (1, 0.5, 120)
    assert settings.ports == (9092,)
    assert settings.about()["directory"] == str(tmp_path)


@pytest.mark.parametrize("option", ["--interface", "--metrics", "--keep", "--on-incident", "--topic"])
def test_what_is_not_there_is_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(["watch", str(tmp_path), option, "x"])
    assert exit.value.code == 2


def test_a_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        parse(["watch", str(tmp_path), "--master", "spark://host:7077"])


@pytest.mark.parametrize("place", ["missing", "file.pcap", "-"])
def test_only_directories_are_watched(tmp_path: Path, place: str) -> None:
    (tmp_path / "file.pcap").touch()
    done = kdissect("watch", tmp_path / place if place != "-" else place)
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert "is not a directory" in done.stderr
