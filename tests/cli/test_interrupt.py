"""The first Ctrl-C ends the reading, the second one the command."""

import os
import signal
import threading
import time

import pytest

from kdissect.cli.interrupt import Ending, InterruptibleStream, first_interrupt
from kdissect.errors import ExitCode, UserError


def test_the_first_interrupt_ends_a_stream() -> None:
    reader, writer = os.pipe()
    with first_interrupt() as interrupt, os.fdopen(reader, "rb") as pipe:
        stream = InterruptibleStream(pipe, interrupt)
        os.write(writer, b"packets")
        assert stream.read(100) == b"packets"
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.has_come
        assert stream.read(100) == b""
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    os.close(writer)


def test_an_interrupt_that_another_thread_takes_ends_a_stream() -> None:
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
            assert InterruptibleStream(pipe, interrupt).read(100) == b""
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            other.join()
        assert interrupt.has_come
    os.close(writer)


def test_afterwards_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with first_interrupt():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_work_of_which_half_is_nothing_ends_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with first_interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt), interrupt.ends_at_once():
            os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.has_come
        assert interrupt.on_first is None
    assert capfd.readouterr().err == ""  # nothing is going to be reported


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (KeyboardInterrupt(), "kdissect: interrupted: a \\x1b file is left\n"),
        (SystemExit(ExitCode.TERMINATED), "kdissect: terminated: a \\x1b file is left\n"),
        (SystemExit(ExitCode.DONE), ""),
        (UserError("no such file"), ""),
    ],
)
def test_what_a_command_leaves_behind_is_told_once(
    end: BaseException, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        ending = Ending("nothing is left")
        with ending.told():
            ending.left = "a \x1b file is left"
            raise end

    with pytest.raises(type(end)):
        work()
    assert capsys.readouterr().err == told
