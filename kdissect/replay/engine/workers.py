"""A pass on several cores: a process for each share of the connections, begun at one time.

Processes are forked, so that what was loaded is there without being sent. Each prepares its own requests, has
its own connections, and keeps responses in a spool that was made before, where they can be read when it has
ended. Processes hear of each other by a `StopSignal` only: when one stops, all do.
"""

import signal
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from kdissect.forked_process import ForkedProcess
from kdissect.replay.engine.pass_results import PassOutcome
from kdissect.replay.engine.run_limits import StopSignal


class Worker(Protocol):
    """Work of one process."""

    @property
    def lead_ns(self) -> int:
        """Return how long it needs from being told when to begin until then."""

    def play(self, start_ns: int) -> PassOutcome:
        """Send its share, from `start_ns` on."""


def run_workers(
    makers: Sequence[Callable[[], Worker]], stop_signal: StopSignal, begin: Callable[[int], int]
) -> tuple[int, list[PassOutcome]]:
    """Make and run workers, each in a process. Return when they began, and what came of each.

    `begin` returns from the longest lead when to begin. Raise what a worker raises, and ProcessLostError if
    one dies.
    """
    ignored = (signal.SIGTERM,)  # this process gives the stop signal
    children = [ForkedProcess(partial(_work, maker), "sends requests", ignored) for maker in makers]
    try:
        leads = _messages(children, stop_signal)
        start_ns = begin(max(leads))
        for child in children:
            child.pipe.send(start_ns)
        return start_ns, _messages(children, stop_signal)
    finally:
        for child in children:
            child.end(patience_s=1)


def _work(maker: Callable[[], Worker], pipe: Connection) -> None:
    """Be one of the processes."""
    try:
        worker = maker()
        pipe.send(worker.lead_ns)
        outcome = worker.play(pipe.recv())
        pipe.send(outcome)
    except BrokenPipeError:
        pass  # the parent was killed
    except Exception as error:  # noqa: BLE001 - it is raised again where the processes are awaited
        pipe.send(error)


def _messages(children: Sequence[ForkedProcess], stop_signal: StopSignal) -> list[Any]:
    """Return the next message of every process.

    Raise what one of them raised, and ProcessLostError if one has died.
    """
    messages: dict[Connection, Any] = {}
    child_of = {child.pipe: child for child in children}
    while len(messages) < len(children):
        try:
            for ready in wait(child_of.keys() - messages.keys()):
                assert isinstance(ready, Connection)
                messages[ready] = _message(child_of[ready], stop_signal)
        except KeyboardInterrupt:
            stop_signal.give("interrupted")
    failed = next((message for message in messages.values() if isinstance(message, Exception)), None)
    if failed is not None:
        raise failed
    return [messages[child.pipe] for child in children]


def _message(child: ForkedProcess, stop_signal: StopSignal) -> Any:
    try:
        return child.receive()
    except Exception as error:  # noqa: BLE001 - it is raised when all processes have answered
        stop_signal.give(str(error))
        return error
