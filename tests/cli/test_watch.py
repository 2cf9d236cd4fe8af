"""The command `watch`: what it refuses, and the lines that it prints."""

import re
import sys
from pathlib import Path

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.watch import _display, _settings, print_recent, watch
from kdissect.cli.watch_options import NS_PER_S
from kdissect.errors import UsageError
from kdissect.live.screen_parts import KEYS
from kdissect.live.watch_events import text_lines
from kdissect.spark.watch.watched_directory import WatchedDirectory
from tests.helpers import recorded
from tests.helpers.command import assert_one_sentence
from tests.helpers.command_here import kdissect_here
from tests.live.test_watch_events import REPORT


def test_options_become_settings(tmp_path: Path) -> None:
    arguments = parse(
        ["watch", str(tmp_path), "--every", "1s", "--settle", "500ms", "--until-idle", "2m", "--port", "9092"]
    )
    settings = _settings(arguments, WatchedDirectory(str(tmp_path)))
    assert (settings.every_s, settings.settle_s, settings.until_idle_s) == (1, 0.5, 120)
    assert settings.ports == (9092,)
    assert settings.about()["directory"] == str(tmp_path)
    assert settings.skip_behind_s is None
    arguments.skip_behind = 90 * NS_PER_S
    assert _settings(arguments, WatchedDirectory(str(tmp_path))).skip_behind_s == 90


def test_what_is_kept_is_not_skipped(tmp_path: Path) -> None:
    arguments = parse(["watch", str(tmp_path), "--skip-behind", "1m", "--keep", "24h"])
    with pytest.raises(UsageError, match="--keep removes what was read, and --skip-behind leaves"):
        _settings(arguments, WatchedDirectory(str(tmp_path)))


@pytest.mark.parametrize("place", ["missing", "file.pcap"])
def test_only_directories_are_watched(tmp_path: Path, place: str) -> None:
    (tmp_path / "file.pcap").touch()
    done = kdissect_here("watch", tmp_path / place)
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert "is not a directory" in done.stderr


@pytest.mark.parametrize("places", [[], ["ring", "--interface", "lo"]])
def test_one_source_is_watched(places: list[str]) -> None:
    with pytest.raises(UsageError, match="watch needs one of DIR, - and --interface NAME"):
        watch(parse(["watch", *places]))


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_cannot_move_the_cursor_gets_lines(
    term: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", term)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    with _display(parse(["watch", str(tmp_path)]), WatchedDirectory(str(tmp_path))) as show:
        show(REPORT)
    assert capsys.readouterr().out.splitlines() == text_lines(REPORT)


@pytest.mark.parametrize("out", [None, "/tables"])
def test_a_screen_that_is_quit_leaves_the_report_of_the_last_ten_minutes(
    out: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    summary, _, _ = recorded.analyzed("broker-restart.pcapng")
    print_recent(summary, out)
    text = capsys.readouterr().out
    assert text.startswith("kdissect ")
    assert "Incidents  greatest impact first" in text
    assert ("kdissect report /tables" in text) == (out is not None)


def test_the_help_names_the_keys_of_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["watch", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, what in re.findall(r"(\S+) (\w+)(?:  |$)", KEYS):
        assert re.search(rf"(?<=[ ,]){re.escape(name)} \w+", text), (name, what)
