"""Forked processes: messages, errors and deaths reach this one, signals of the user do not reach them."""

import gc
import os
import signal
from multiprocessing.connection import Connection

import pytest

from kdissect.forked_process import ForkedProcess, ProcessLostError, frozen_garbage


def answer(pipe: Connection) -> None:
    """Double numbers, fail for 0, and die for less."""
    try:
        while True:
            number = pipe.recv()
            if number < 0:
                os._exit(1)
            pipe.send(2 * number if number else ValueError("nothing to double"))
    except EOFError:
        pipe.send("the end")


def test_messages_errors_and_death() -> None:
    process = ForkedProcess(answer, "doubles numbers")
    process.pipe.send(21)
    assert process.receive() == 42
    process.pipe.send(0)
    with pytest.raises(ValueError, match="nothing to double"):
        process.receive()
    process.pipe.send(-1)
    with pytest.raises(ProcessLostError, match="a process that doubles numbers has died"):
        process.receive()
    process.end()


@pytest.mark.parametrize("ignored", [(), (signal.SIGTERM,)])
def test_an_interrupt_is_not_for_it_and_sigterm_only_if_it_is_not_ignored(
    ignored: tuple[signal.Signals, ...],
) -> None:
    process = ForkedProcess(answer, "doubles numbers", ignored)
    process.pipe.send(1)
    assert process.receive() == 2  # it has set its signals
    for each in (signal.SIGINT, *ignored):
        os.kill(process.number, each)
    process.pipe.send(4)
    assert process.receive() == 8
    if not ignored:
        os.kill(process.number, signal.SIGTERM)
        with pytest.raises(ProcessLostError):
            process.receive()
    process.end()


def write_at_end(pipe: Connection, told: int) -> None:
    """Wait for the end of the pipe, and tell of it."""
    try:
        pipe.recv()
    except EOFError:
        os.write(told, b"by itself")


@pytest.mark.parametrize("patience_s", [0, 30])
def test_a_process_with_time_to_end_ends_by_itself(patience_s: float) -> None:
    ends, told = os.pipe()
    process = ForkedProcess(lambda pipe: write_at_end(pipe, told), "waits")
    process.end(patience_s)
    os.close(told)
    assert os.read(ends, 100) in ({b"by itself"} if patience_s else {b"", b"by itself"})
    os.close(ends)
    with pytest.raises(ProcessLookupError):
        os.kill(process.number, 0)


def test_garbage_is_frozen_while_processes_are_there() -> None:
    before = gc.get_freeze_count()
    with frozen_garbage():
        assert gc.get_freeze_count() > before
    assert gc.get_freeze_count() == 0
