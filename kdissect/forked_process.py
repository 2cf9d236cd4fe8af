"""A process that is forked from this one, with a pipe between both.

Modules and data that this process has are there without being sent. A process that waits for messages ends
when its pipe ends, however this one has ended. It does not decide what an interrupt means: that is for the
process that the user started.
"""

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any


class ProcessLostError(Exception):
    """A forked process has died without saying why."""


class ForkedProcess:
    """A process that runs `work` with its end of the pipe. `does` completes the sentence about its death."""

    def __init__(
        self, work: Callable[[Connection], None], does: str, ignored: tuple[signal.Signals, ...] = ()
    ) -> None:
        fork = multiprocessing.get_context("fork")
        self.pipe, there = fork.Pipe()
        self._does = does
        self._process = fork.Process(target=_run, args=(work, ignored, there, self.pipe), daemon=True)
        self._process.start()
        there.close()

    @property
    def number(self) -> int:
        """Return the number that the operating system gave the process."""
        number = self._process.pid
        assert number is not None
        return number

    def receive(self) -> Any:
        """Return the next message of the process.

        Raise the exception that it sent instead, and ProcessLostError if it has died.
        """
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            raise self.lost() from None
        if isinstance(message, Exception):
            raise message
        return message

    def lost(self) -> ProcessLostError:
        """Return the error about the death of the process."""
        return ProcessLostError(f"a process that {self._does} has died")

    def end(self, patience_s: float = 0) -> None:
        """Close the pipe, and end the process if it does not end by itself in so many seconds."""
        self.pipe.close()
        if patience_s:
            self._process.join(patience_s)
        self._process.kill()
        self._process.join()


@contextmanager
def frozen_garbage() -> Iterator[None]:
    """Collect no garbage among what is there now: that would copy memory which forked processes share."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _run(
    work: Callable[[Connection], None],
    ignored: tuple[signal.Signals, ...],
    pipe: Connection,
    other_end: Connection,
) -> None:
    """Be the process."""
    other_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if signal.SIGTERM in ignored else signal.SIG_DFL)
    work(pipe)
