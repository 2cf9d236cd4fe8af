"""The first Ctrl-C ends the reading and not the command: what was read so far is still reported.

Within `first_interrupt` the first SIGINT sets a flag, and whoever reads a pipe through `InterruptibleStream`
then finds its end. Tasks of Spark are told by `spark.reading_stop`. The second SIGINT raises
KeyboardInterrupt, as ever.
"""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from types import FrameType
from typing import BinaryIO

from kdissect.capture.formats.file_types import STANDARD_INPUT
from kdissect.errors import UserError

INTERRUPTED = "kdissect: interrupted: what came until now is reported (Ctrl-C again ends at once)\n"


class Interrupt:
    """Whether the user wants to end the reading; `descriptor` becomes readable when that is so."""

    def __init__(self, on_first: Callable[[], None] | None = None) -> None:
        self.descriptor, self._alarm = os.pipe()
        self.has_come = False
        self._on_first = on_first

    def handle(self, _signal: int, _frame: FrameType | None) -> None:
        """Note the first SIGINT. Raise KeyboardInterrupt at the second one."""
        if self.has_come:
            raise KeyboardInterrupt
        self.has_come = True
        os.write(self._alarm, b"!")
        if self._on_first:
            self._on_first()
        sys.stderr.write(INTERRUPTED)

    def since_now(self) -> Callable[[], bool]:
        """Return the function that tells whether the first SIGINT has come after this call."""
        came_before = self.has_come
        return lambda: self.has_come and not came_before

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.descriptor)
        os.close(self._alarm)


class InterruptibleStream:
    """The bytes of a pipe until it ends, or until an interrupt."""

    def __init__(self, stream: BinaryIO, interrupt: Interrupt) -> None:
        self._descriptor, self._interrupt = stream.fileno(), interrupt

    @property
    def was_interrupted(self) -> bool:
        """Whether the user ended the reading."""
        return self._interrupt.has_come

    def read(self, size: int) -> bytes:
        """Return the bytes that are there, at most `size`, and wait for the first of them."""
        ready, _, _ = select.select([self._descriptor, self._interrupt.descriptor], [], [])
        return b"" if self._interrupt.descriptor in ready else os.read(self._descriptor, size)


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


@contextmanager
def interruptible_input(paths: Sequence[str]) -> Iterator[InterruptibleStream | None]:
    """Return standard input, if it is one of the paths, as a stream that the first SIGINT ends.

    Raise KeyboardInterrupt if it was ended before there was the beginning of a capture, which is a UserError.
    """
    if STANDARD_INPUT not in paths or not isinstance(sys.stdin.buffer, BufferedReader):
        yield None
        return
    with first_interrupt() as interrupt:
        stream = InterruptibleStream(sys.stdin.buffer, interrupt)
        try:
            yield stream
        except UserError as error:
            raise interrupted_or(error, stream) from None


def interrupted_or(error: UserError, stream: InterruptibleStream | None) -> BaseException:
    """Return KeyboardInterrupt if the user ended the reading before there was something, else the error."""
    return KeyboardInterrupt() if stream and stream.was_interrupted else error
