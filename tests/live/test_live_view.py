"""The screen on a terminal of its own: it is drawn, obeys keys, and gives the terminal back."""

import os
import pty
import signal
import termios
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from kdissect.live import live_view as module
from kdissect.live.live_view import live_view
from kdissect.live.minute_slice import MinuteSlice
from tests.helpers.batch_partials import BatchPartials
from tests.live.test_call_series import batches  # noqa: F401 - a fixture
from tests.live.test_recent_calls import report


class Terminal:
    """Output of a pseudo terminal."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.text = ""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while data := os.read(self.ours, 1 << 16):
            self.text += data.decode(errors="replace")

    def wait_for(self, part: str) -> None:
        until = time.monotonic() + 10
        while part not in self.text and time.monotonic() < until:
            time.sleep(0.01)
        assert part in self.text


def test_keys_redraw_and_quit(
    batches: list[BatchPartials],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    terminal = Terminal()
    out = os.fdopen(os.dup(terminal.theirs), "w")
    console = Console
    monkeypatch.setattr(
        module, "Console", lambda: console(file=out, force_terminal=True, width=80, height=24)
    )
    before = termios.tcgetattr(terminal.theirs)
    ended = False
    try:
        with live_view("/ring", terminal.theirs, MinuteSlice(tmp_path)) as view:
            terminal.wait_for("waiting for the first packets")
            assert termios.tcgetattr(terminal.theirs) != before
            view.account(report(batches[0], 1))
            terminal.wait_for("Produce")
            os.write(terminal.ours, b"3")
            terminal.wait_for("127.0.0.1:39092")
            os.write(
                terminal.ours, b"\x1b[200~topic-queue\x1b[201~\x1bq\x1b[B\r"
            )  # pasted, Alt-q, down, enter
            terminal.wait_for("broker 127.0.0.1:")
            os.write(terminal.ours, b"p")
            terminal.wait_for("paused")
            assert not view.has_quit
            monkeypatch.setattr(signal, "SIGINT", signal.SIGUSR1)
            caught = threading.Event()
            signal.signal(signal.SIGUSR1, lambda *_: caught.set())
            os.write(terminal.ours, b"q")
            assert caught.wait(10)
            assert view.has_quit
            ended = True
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert ended
    assert termios.tcgetattr(terminal.theirs) == before
    terminal.wait_for("\x1b[?1049l")  # the screen from before
    out.close()


def test_another_size_of_the_terminal_draws_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal = Terminal()
    out = os.fdopen(os.dup(terminal.theirs), "w")
    made: list[Console] = []

    def sized(width: int = 60) -> Console:
        made.append(Console(file=out, force_terminal=True, width=width, height=24))
        return made[-1]

    monkeypatch.setattr(module, "Console", sized)
    with live_view(
        "/ring/of/a/name/that/is/longer/than/sixty/columns/in/all/of/it",
        terminal.theirs,
        MinuteSlice(tmp_path),
    ):
        terminal.wait_for("/ring/of")
        assert "columns/in/all/of/it" not in terminal.text
        made[0].width = 120
        terminal.wait_for("columns/in/all/of/it")
    out.close()
