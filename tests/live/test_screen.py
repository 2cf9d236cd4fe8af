"""The screen fits its terminal, shows what a watch has found, and obeys keys."""

import io

import pytest
from rich.console import Console

from kdissect.live.screen import WatchScreen, course, packed
from kdissect.report.incidents.incident_log import ChangeKind, IncidentChange, KnownIncident
from kdissect.spark.watch.watch_query import BatchReport
from kdissect.text import display_width
from tests.helpers.batch_partials import BatchPartials
from tests.live.test_call_series import batches  # noqa: F401 - a fixture
from tests.live.test_recent_calls import report

HEADLINE = "broker 3 (127.0.0.1:39092) sent nothing for 14.4 s\x1b[2J while " + "requests waited, " * 20


def change(number: int, kind: ChangeKind) -> IncidentChange:
    known = KnownIncident(
        number, "broker_frozen", "critical", "server", "broker 3", 1, None, HEADLINE, (), 5, 6, 1.0
    )
    return IncidentChange(kind, known)


@pytest.fixture
def screen(batches: list[BatchPartials]) -> WatchScreen:  # noqa: F811
    screen = WatchScreen("/ring")
    for number, batch in enumerate(batches):
        one: BatchReport = report(batch, number)
        one.incidents = [change(1, ChangeKind.OPENED)]
        one.notices = ["ring-3.pcap was overwritten"]
        screen.add(one)
    return screen


def lines(screen: WatchScreen, width: int, height: int = 24) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height).print(screen.draw(width, height))
    return out.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [80, 200])
def test_everything_fits(screen: WatchScreen, width: int) -> None:
    shown = lines(screen, width)
    assert len(shown) <= 24
    assert all(display_width(line.rstrip()) <= width for line in shown)
    text = "\n".join(shown)
    assert shown[0].startswith("kdissect watch  /ring")
    for part in (
        "10 exchanges (5/s)",
        "0 connections open",
        "incident 1 opened: critical",
        "missing: ring-3",
        "Produce",
        "api",
        "▼",
    ):
        assert part in text
    assert "\x1b" not in text
    assert shown[-1].startswith("q quit")


def test_before_the_first_batch_it_waits() -> None:
    assert "waiting for the first closed file" in "\n".join(lines(WatchScreen("/ring"), 80))


def test_keys_choose_table_and_order(screen: WatchScreen) -> None:
    assert any(line.startswith("api ") for line in lines(screen, 80))
    screen.press("\t")
    assert any(line.startswith("client ") for line in lines(screen, 80))
    screen.press("3")
    assert any(line.startswith("127.0.0.1:39092") for line in lines(screen, 80))
    screen.press("s")
    assert any("p99▼" in line for line in lines(screen, 80))
    screen.press("p")
    assert screen.paused
    assert "paused" in lines(screen, 80)[0]


def test_closed_incidents_leave_first(
    screen: WatchScreen,
    batches: list[BatchPartials],  # noqa: F811
) -> None:
    one = report(batches[0], 5)
    one.incidents = [change(2, ChangeKind.CLOSED), *(change(n, ChangeKind.OPENED) for n in range(3, 9))]
    screen.add(one)
    text = "\n".join(lines(screen, 80, 40))
    assert "incident 2 closed" not in text
    assert text.count(" opened: critical") == 6


def test_a_course_has_the_last_values() -> None:
    assert course([9, 0, 1, 7], 3) == "▁▂█"
    assert course([0, 0], 5) == "▁▁"
    assert course([], 5) == ""


def test_figures_are_packed_into_lines() -> None:
    assert packed(["12:00:05", "3 files", "7 errors"], 20) == ["12:00:05  3 files", "7 errors"]
