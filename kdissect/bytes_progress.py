"""Progress of reading captures on standard error: one updated line on a terminal, a rare line elsewhere.

Commands without Spark show it as they pass over bytes, `spark.progress` shows that of Spark's jobs.
"""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from kdissect.text import format_size

POLL_SECONDS = 0.25
TERMINAL_DELAY = 1.0  # shorter jobs show no progress
FILE_SECONDS = 30.0
ERASE_LINE = "\r\x1b[K"  # of a terminal
LEAST_DONE = 0.02  # part of the work from which on the time left is told


def time_left(done: int, size: int, seconds: float) -> str:
    """Return `, about 40 s left`; nothing while too little is done to tell."""
    if done < LEAST_DONE * size:
        return ""
    left = seconds * (size - done) / done
    return f", about {left:.0f} s left" if left < 120 else f", about {left / 60:.0f} min left"


class ProgressLine:
    """One line that is written again and again on a terminal, or a line for each text elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.is_terminal = self._stream.isatty()
        self._is_shown = False

    def show(self, text: str) -> None:
        """Write a text instead of the one before it."""
        self._stream.write(f"{ERASE_LINE}{text}" if self.is_terminal else f"{text}\n")
        self._stream.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Remove the line from a terminal, before something else is written there."""
        if self._is_shown and self.is_terminal:
            self._stream.write(ERASE_LINE)
            self._stream.flush()
        self._is_shown = False


class BytesProgress:
    """Shows how many bytes have been passed, in one pass or in several, until the `with` block ends."""

    def __init__(self, *passes: str, quiet: bool = False, stream: TextIO | None = None) -> None:
        """Prepare to show passes over the same bytes; each says what is done, such as `indexing captures`."""
        self._passes = passes
        self._line, self._quiet = ProgressLine(stream), quiet
        self._number, self._begun = 0, time.monotonic()  # of the pass that is going on
        self._next = time.monotonic() + (TERMINAL_DELAY if self._line.is_terminal else FILE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the line from a terminal, before something else is written there."""
        self._line.clear()

    def __call__(self, passed: int, size: int, number: int = 0) -> None:
        """Show that `passed` of `size` bytes are passed in the pass of this number, if it is time for that.

        The passes that follow are expected to take as long as this one.
        """
        if number != self._number:
            self._number, self._begun = number, time.monotonic()
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (POLL_SECONDS if self._line.is_terminal else FILE_SECONDS)
        count = len(self._passes)
        left = time_left(passed, (count - number) * size, time.monotonic() - self._begun)
        doing = self._passes[number] + (f" ({number + 1} of {count})" if count > 1 else "")
        self._line.show(f"kdissect: {doing}, {format_size(passed)} of {format_size(size)}{left}")
