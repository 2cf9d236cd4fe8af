"""The screen fits its terminal, shows what a watch has found, and obeys keys."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from kdissect.live.minute_slice import NOTHING_READ, MinuteSlice
from kdissect.live.screen import WatchScreen, _names
from kdissect.report.incidents.incident_log import ChangeKind, IncidentChange, KnownIncident
from kdissect.spark.watch.batch_job import BatchReport
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
    screen = WatchScreen("/ring", MinuteSlice(Path("/nowhere")))
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
    assert "waiting for the first packets" in "\n".join(
        lines(WatchScreen("/ring", MinuteSlice(Path("/nowhere"))), 80)
    )


def test_keys_choose_table_and_order(screen: WatchScreen) -> None:
    assert any(line.startswith("api ") for line in lines(screen, 80))
    screen.press("tab")
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


def names(screen: WatchScreen, title: str) -> list[str]:
    """Return the names in the table, which has a title."""
    shown = lines(screen, 200, 60)
    begin = next(number for number, line in enumerate(shown) if line.startswith(f"{title} "))
    return [line.split("  ")[0] for line in shown[begin + 1 : -1]]


def press(screen: WatchScreen, *keys: str) -> None:
    for key in keys:
        screen.press(key)


def test_topics_and_connections_have_tables(screen: WatchScreen) -> None:
    press(screen, "5")
    topics = names(screen, "topic")
    assert len(topics) > 1
    press(screen, "6")
    assert all(" → 127.0.0.1:" in name for name in names(screen, "connection"))


def test_a_filter_keeps_the_rows_that_have_a_text_in_their_name(screen: WatchScreen) -> None:
    every = names(screen, "api")
    press(screen, "/", *"fetcQ", "backspace", "h")
    assert "filter: fetch_" in lines(screen, 80)[-1]
    press(screen, "enter")
    found = names(screen, "api")
    assert found == [name for name in every if "fetch" in name.lower()]
    assert 0 < len(found) < len(every)
    press(screen, "escape")
    assert names(screen, "api") == every


def test_letters_of_a_filter_are_no_keys(screen: WatchScreen) -> None:
    press(screen, "/", *"topic-queue")
    assert not screen.has_quit
    assert not screen.paused
    assert "no api has 'topic-queue' in its name" in "\n".join(lines(screen, 80))
    press(screen, "escape", "q")
    assert screen.has_quit


def test_a_row_is_chosen_and_shown(screen: WatchScreen) -> None:
    press(screen, "2")
    clients = names(screen, "client")
    press(screen, "down", "enter")
    shown = lines(screen, 100)
    assert f"client {clients[1]}" in shown
    assert any(line.startswith("rate ") and line.strip("rate ") for line in shown)
    assert any(" of 100 took " in line for line in shown)
    apis = names(screen, "api")
    assert apis
    press(screen, "escape", "up", "up", "enter")
    assert f"client {clients[0]}" in lines(screen, 100)
    press(screen, "escape", "end", "enter")
    assert f"client {clients[-1]}" in lines(screen, 100)


def test_the_detail_of_a_row_has_the_incidents_that_name_it(screen: WatchScreen) -> None:
    press(screen, "3", "/", *"39092", "enter", "enter")
    text = "\n".join(lines(screen, 200, 40))
    assert text.count("incident 1 opened") == 2  # above, and in the detail
    press(screen, "escape", "escape", "/", *"19092", "enter", "enter")
    assert "\n".join(lines(screen, 200, 40)).count("incident 1 opened") == 1


@pytest.mark.parametrize(
    ("name", "is_named"),
    [
        ("10.1.0.2:9092", True), ("10.1.0.2:909", False), ("0.1.0.2:9092", False), ("orders", True),
        ("order", False), ("app-1", False), ("app-12", True), ("12", False), ("billing", True), ("", False),
    ],
)  # fmt: skip
def test_an_incident_is_about_a_row_that_it_names_whole(name: str, is_named: bool) -> None:
    known = KnownIncident(
        1, "broker_died", "critical", "server", "broker 2 (10.1.0.2:9092)", 0, None,
        "broker 2 died: 3 groups wait, among them orders.", ("app-12 (10.1.0.9)", "billing"), 3, 9, 1.0,
    )  # fmt: skip
    assert _names(IncidentChange(ChangeKind.OPENED, known), name) is is_named


@pytest.mark.parametrize("height", [10, 24])
@pytest.mark.parametrize("keys", [("6", "end"), ("2", "enter"), ("?",), ("/", "x")], ids=" ".join)
def test_every_view_fits(screen: WatchScreen, keys: tuple[str, ...], height: int) -> None:
    press(screen, *keys)
    for width in (80, 200):
        assert all(display_width(line.rstrip()) <= width for line in lines(screen, width, height))
    assert len(lines(screen, 80, 24)) <= 24


@pytest.mark.parametrize("height", [8, 12, 24])
def test_incidents_leave_room_for_calls_and_keys(
    screen: WatchScreen,
    batches: list[BatchPartials],  # noqa: F811
    height: int,
) -> None:
    last = report(batches[0], len(batches))
    last.incidents = [change(number, ChangeKind.CLOSED) for number in range(1, 7)]
    screen.add(last)
    shown = lines(screen, 80, height)
    assert len(shown) <= height
    assert any(text.startswith("Produce ") for text in shown)
    assert shown[-1].startswith("q quit")


def test_the_help_names_every_key(screen: WatchScreen) -> None:
    press(screen, "?")
    text = "\n".join(lines(screen, 100))
    assert all(word in text for word in ("quit", "filter rows", "detail", "sort", "pause", "next table"))
    press(screen, "q")
    assert screen.has_quit


def test_a_slice_of_nothing_is_refused_by_a_sentence(screen: WatchScreen) -> None:
    press(screen, "w")
    assert NOTHING_READ in lines(screen, 80)
