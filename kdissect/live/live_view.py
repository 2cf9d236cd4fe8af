"""The screen of a watch on a terminal: drawn by Rich after each batch and each key.

A thread reads keys, without waiting for a line. `q` interrupts the command as Ctrl-C does; `has_quit` then
says that this is no failure. The terminal gets its settings back at the end, however that comes.
"""

import os
import select
import signal
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from kdissect.live.screen import WatchScreen
from kdissect.spark.watch.watch_query import BatchReport

QUIT = "q"
MOST_KEYS = 64  # that are read at a time


class LiveView:
    """See the module's text; `live_view` makes one."""

    def __init__(self, screen: WatchScreen, console: Console, live: Live) -> None:
        self._screen, self._console, self._live = screen, console, live
        self._lock = threading.Lock()
        self.has_quit = False

    def account(self, report: BatchReport) -> None:
        """Add a batch, and show it unless the screen is paused."""
        with self._lock:
            self._screen.add(report)
            if not self._screen.paused:
                self._draw()

    def press(self, keys: str) -> None:
        """Do what keys ask for."""
        with self._lock:
            for key in keys:
                self._screen.press(key)
            self._draw()
        if QUIT in keys:
            self.has_quit = True
            os.kill(os.getpid(), signal.SIGINT)

    def _draw(self) -> None:
        width, height = self._console.size
        self._live.update(self._screen.draw(width, height), refresh=True)


@contextmanager
def live_view(label: str, keyboard: int) -> Iterator[LiveView]:
    """Show a screen on standard output, with keys from the descriptor of a terminal."""
    console = Console()
    before = termios.tcgetattr(keyboard)
    end, alarm = os.pipe()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        view = LiveView(WatchScreen(label), console, live)
        view.press("")
        thread = threading.Thread(target=_read_keys, args=(keyboard, end, view), name="keys", daemon=True)
        tty.setcbreak(keyboard)
        thread.start()
        try:
            yield view
        finally:
            os.write(alarm, b"!")
            thread.join()
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
            os.close(alarm)
            os.close(end)


def _read_keys(keyboard: int, end: int, view: LiveView) -> None:
    while True:
        ready, _, _ = select.select([keyboard, end], [], [])
        if end in ready:
            return
        keys = os.read(keyboard, MOST_KEYS)
        if not keys:
            return
        view.press(keys.decode(errors="replace"))
