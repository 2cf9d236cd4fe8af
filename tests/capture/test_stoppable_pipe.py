"""Pipes that are read until an interrupt."""

import os
import signal
import threading
import time

import pytest

from kdissect.capture.stoppable_pipe import StoppablePipe
from kdissect.cli.interrupt import first_interrupt


def test_the_first_interrupt_ends_a_pipe() -> None:
    reader, writer = os.pipe()
    with first_interrupt() as interrupt, os.fdopen(reader, "rb") as pipe:
        stream = StoppablePipe(pipe.fileno(), lambda: interrupt.has_come)
        os.write(writer, b"packets")
        assert stream.read(100) == b"packets"
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.has_come
        assert stream.read(100) == b""
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    os.close(writer)


def test_an_interrupt_that_another_thread_takes_ends_a_pipe() -> None:
    reader, writer = os.pipe()
    seconds = iter([0.2, 5.0])

    def interrupt_then_write() -> None:
        time.sleep(next(seconds))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(next(seconds))
        os.write(writer, b"packets")  # without it a read that misses the signal would never end

    other = threading.Thread(target=interrupt_then_write)
    with first_interrupt() as interrupt, os.fdopen(reader, "rb") as pipe:
        other.start()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            assert StoppablePipe(pipe.fileno(), lambda: interrupt.has_come).read(100) == b""
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            other.join()
        assert interrupt.has_come
    os.close(writer)
