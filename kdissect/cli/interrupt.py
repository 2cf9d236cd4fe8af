"""The first Ctrl-C ends the reading and not the command: what was read so far is still reported.

Within `first_interrupt` the first SIGINT sets a flag, and whoever reads a pipe through `StoppablePipe` then
finds its end. Tasks of Spark see it by `spark.reading_stop`. The second SIGINT raises
KeyboardInterrupt, as ever.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from types import FrameType
from typing import TYPE_CHECKING

from kdissect.bytes_progress import ERASE_LINE
from kdissect.capture.formats.file_types import STANDARD_INPUT
from kdissect.capture.stoppable_pipe import StoppablePipe
from kdissect.errors import ExitCode, UserError
from kdissect.text import escape_control, format_size

if TYPE_CHECKING:
    from kdissect.capture.index.index import CaptureIndex
    from kdissect.capture.inputs import Inputs

INTERRUPTED = "kdissect: interrupted: what came until now is reported (Ctrl-C again ends at once)\n"


class Interrupt:
    """State of the user's wish to end the reading; `descriptor` becomes readable with it."""

    def __init__(self, on_first: Callable[[], None] | None = None) -> None:
        self.descriptor, self._alarm = os.pipe()
        self.has_come = False
        self.on_first = on_first
        """Function called at the first SIGINT; it may change while work goes on."""

    def handle(self, _signal: int, _frame: FrameType | None) -> None:
        """Note the first SIGINT. Raise KeyboardInterrupt at the second one."""
        if self.has_come:
            raise KeyboardInterrupt
        self.has_come = True
        os.write(self._alarm, b"!")
        if self.on_first:
            self.on_first()
        # The line of a terminal holds progress, and the ^C that it shows. If the signal comes in the middle
        # of a write to standard error, its buffer refuses another one. So this goes past it.
        line = (ERASE_LINE if sys.stderr.isatty() else "") + INTERRUPTED
        with suppress(OSError):
            os.write(sys.stderr.fileno(), line.encode())

    def since_now(self) -> Callable[[], bool]:
        """Return the function that tells whether the first SIGINT has come after this call."""
        came_before = self.has_come
        return lambda: self.has_come and not came_before

    @contextmanager
    def ends_at_once(self) -> Iterator[None]:
        """Make the first SIGINT raise KeyboardInterrupt within the block: half of its work is no use."""
        before, self.on_first = self.on_first, end_at_once
        try:
            yield
        finally:
            self.on_first = before

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.descriptor)
        os.close(self._alarm)


class Ending:
    """Sentence on what a command leaves behind that is ended halfway; `left` changes as its work goes on."""

    def __init__(self, left: str) -> None:
        self.left = left

    @contextmanager
    def told(self) -> Iterator[None]:
        """Write one sentence to standard error if Ctrl-C or SIGTERM ends the block."""
        try:
            yield
        except KeyboardInterrupt:
            self._tell("interrupted")
            raise
        except SystemExit as end:
            if end.code == ExitCode.TERMINATED:
                self._tell("terminated")
            raise

    def _tell(self, what: str) -> None:
        sys.stderr.write(f"kdissect: {what}: {escape_control(self.left)}\n")


def end_at_once() -> None:
    """Raise KeyboardInterrupt at the first SIGINT: half of the work is no use."""
    raise KeyboardInterrupt


@contextmanager
def first_interrupt(on_first: Callable[[], None] | None = None) -> Iterator[Interrupt]:
    """Make the first SIGINT end the reading within the `with` block, and call `on_first`."""
    interrupt = Interrupt(on_first)
    try:
        before = signal.signal(signal.SIGINT, interrupt.handle)
    except ValueError:  # outside the main thread the caller handles signals
        yield interrupt
        interrupt.close()
        return
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
        interrupt.close()


def input_stream(paths: Sequence[str], interrupt: Interrupt) -> StoppablePipe | None:
    """Return standard input, if it is one of the paths, as a stream that the first SIGINT ends."""
    if STANDARD_INPUT not in paths or not isinstance(sys.stdin.buffer, BufferedReader):
        return None
    return StoppablePipe(sys.stdin.fileno(), lambda: interrupt.has_come)


def only_read(read: int, size: int) -> str:
    """Return that so many bytes of captures of a size were read before an interrupt."""
    return f"interrupted: only {format_size(read)} of {format_size(size)} were read"


def left_unread(inputs: "Inputs", index: "CaptureIndex") -> str:
    """Return what an interrupt left out before captures were indexed; empty if nothing."""
    from kdissect.capture.index.index_prefix import split_bytes

    if index.unread_bytes:
        read = split_bytes(index.splits)
        return only_read(read, read + index.unread_bytes)
    if inputs.left:
        return f"interrupted: {inputs.left} captures were not read, or not to their end"
    return ""


def interrupted_or(error: UserError, interrupt: Interrupt) -> BaseException:
    """Return KeyboardInterrupt if the user ended the reading before there was something, else the error."""
    return KeyboardInterrupt() if interrupt.has_come else error
