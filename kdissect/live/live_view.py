"""The screen of a watch on a terminal: drawn by Rich after each batch, each key, and when its size changes.

A thread reads keys, without waiting for a line. `q` interrupts the command as Ctrl-C does; `has_quit` then
says that this is no failure. The terminal gets its settings back at the end, however that comes.
"""

import os
import select
import signal
import termios
import threading
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from kdissect.live.keys import PASTE_MARKS_OFF, PASTE_MARKS_ON, KeyDecoder
from kdissect.live.minute_slice import MinuteSlice
from kdissect.live.screen import WatchScreen
from kdissect.report.model.summary import Summary
from kdissect.spark.watch.batch_job import BatchReport

MOST_KEYS = 64  # bytes of keys that are read at a time
LONE_ESCAPE_S = 0.05
"""An escape character that nothing follows for so long is the key. A terminal sends a sequence at once."""

RESIZE_S = 0.25
"""So often the size of the terminal is looked at."""


class LiveView:
    """See the module's text; `live_view` makes one."""

    def __init__(self, screen: WatchScreen, console: Console, live: Live) -> None:
        self._screen, self._console, self._live = screen, console, live
        self._lock = threading.Lock()
        self._size = (0, 0)
        self.has_quit = False
        self.recent: Summary | None = None
        """The report of the last ten minutes, as the last batch left it."""

    def account(self, report: BatchReport) -> None:
        """Add a batch, and show it unless the screen is paused."""
        with self._lock:
            self._screen.add(report)
            self.recent = report.recent
            if not self._screen.paused:
                self._draw()

    def press(self, keys: Iterable[str]) -> None:
        """Do what keys ask for."""
        with self._lock:
            for key in keys:
                self._screen.press(key)
            self._draw()
            quits = self._screen.has_quit and not self.has_quit
        if quits:
            self.has_quit = True
            os.kill(os.getpid(), signal.SIGINT)

    def redraw(self) -> None:
        """Draw what has changed outside of batches and keys."""
        with self._lock:
            self._draw()

    def fit(self) -> None:
        """Draw again if the terminal has another size."""
        with self._lock:
            if tuple(self._console.size) != self._size:
                self._draw()

    def _draw(self) -> None:
        width, height = self._console.size
        self._size = (width, height)
        self._live.update(self._screen.draw(width, height), refresh=True)


@contextmanager
def live_view(label: str, keyboard: int, slices: MinuteSlice) -> Iterator[LiveView]:
    """Show a screen on standard output, with keys from the descriptor of a terminal."""
    console = Console()
    before = termios.tcgetattr(keyboard)
    end, alarm = os.pipe()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        view = LiveView(WatchScreen(label, slices), console, live)
        slices.on_change = view.redraw
        _write(console, PASTE_MARKS_ON)
        view.press(())
        thread = threading.Thread(target=_read_keys, args=(keyboard, end, view), name="keys", daemon=True)
        tty.setcbreak(keyboard)
        thread.start()
        try:
            yield view
        finally:
            os.write(alarm, b"!")
            thread.join()
            slices.stop()
            _write(console, PASTE_MARKS_OFF)
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
            os.close(alarm)
            os.close(end)


def _write(console: Console, text: str) -> None:
    console.file.write(text)
    console.file.flush()


def _read_keys(keyboard: int, end: int, view: LiveView) -> None:
    decoder = KeyDecoder()
    while True:
        patience = LONE_ESCAPE_S if decoder.waits else RESIZE_S
        ready, _, _ = select.select([keyboard, end], [], [], patience)
        if end in ready:
            return
        if keyboard not in ready:
            if keys := decoder.flush():
                view.press(keys)
            view.fit()
            continue
        data = os.read(keyboard, MOST_KEYS)
        if not data:
            return
        view.press(decoder.feed(data))
