"""The switch of start-up shortcuts: what it turns off and refuses, and that results do not depend on it."""

from pathlib import Path

import pytest

from kdissect.startup_switch import (
    DEFAULT,
    STARTUP_VARIABLE,
    Shortcut,
    StartupSwitchError,
    is_on,
    used_shortcuts,
)
from tests.helpers.command import kdissect

CAPTURES = Path(__file__).parents[3] / "captures"


def test_all_are_on_by_default_but_the_one_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STARTUP_VARIABLE, raising=False)
    assert [shortcut for shortcut in Shortcut if not is_on(shortcut)] == [Shortcut.IN_PROCESS]


def test_plain_turns_all_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTUP_VARIABLE, "plain")
    assert not any(map(is_on, Shortcut))


def test_named_shortcuts_change() -> None:
    off = {Shortcut.PREFORK, Shortcut.LOCAL_SCAN}
    assert used_shortcuts("-prefork,-local_scan") == DEFAULT - off
    assert used_shortcuts("+in_process,-prefork") == frozenset(Shortcut) - {Shortcut.PREFORK}


@pytest.mark.parametrize(
    "text", ["fast", "prefork", "-prefork,fast", "plain,-prefork", "+prefork", "-in_process"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(StartupSwitchError, match="is neither plain nor one of -block_unused"):
        used_shortcuts(text)


def test_the_command_refuses_them_in_one_sentence() -> None:
    done = kdissect("dump", CAPTURES / "pause.pcapng", KDISSECT_STARTUP="fast")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kdissect: KDISSECT_STARTUP: 'fast' is neither plain")
    assert done.stderr.count("\n") == 1


@pytest.mark.thorough
@pytest.mark.spark
def test_the_report_is_the_same_without_shortcuts() -> None:
    command = ("analyze", CAPTURES / "pause.pcapng", "--quiet", "--full")
    usual, plain = kdissect(*command), kdissect(*command, KDISSECT_STARTUP="plain")
    assert (usual.returncode, plain.returncode) == (0, 0)
    assert "Findings" in usual.stdout
    assert plain.stdout == usual.stdout
