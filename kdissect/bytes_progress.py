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

LEAST_DONE = 0.02  # part of the work from which on the time left is told


def time_left(done: int, size: int, seconds: float) -> str:
    """Return `, about 40 s left`; nothing while too little is done to tell."""
    if done < LEAST_DONE * size:
        return ""
    left = seconds * (size - done) / done
    return f", about {left:.0f} s left" if left < 120 else f", about {left / 60:.0f} min left"


class BytesProgress:
    """Shows how many bytes have been passed, in one pass or in several, until the `with` block ends."""

    def __init__(self, *passes: str, quiet: bool = False, stream: TextIO | None = None) -> None:
        """Prepare to show passes over the same bytes; each says what is done, such as `indexing captures`."""
        self._passes = passes
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._quiet, self._shown = quiet, False
        self._number, self._begun = 0, time.monotonic()  # of the pass that is going on
        self._next = time.monotonic() + (TERMINAL_DELAY if self._terminal else FILE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the line from a terminal, before something else is written there."""
        if self._shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._shown = False

    def __call__(self, passed: int, size: int, number: int = 0) -> None:
        """Show that `passed` of `size` bytes are passed in the pass of this number, if it is time for that.

        The passes that follow are expected to take as long as this one.
        """
        if number != self._number:
            self._number, self._begun = number, time.monotonic()
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (POLL_SECONDS if self._terminal else FILE_SECONDS)
        count = len(self._passes)
        left = time_left(passed, (count - number) * size, time.monotonic() - self._begun)
        doing = self._passes[number] + (f" ({number + 1} of {count})" if count > 1 else "")
        text = f"kdissect: {doing}, {format_size(passed)} of {format_size(size)}{left}"
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self._stream.flush()
        self._shown = True
