"""A pass on several cores: a process for each share of the connections, begun at one time.

Processes are forked, so that what was loaded is there without being sent. Each prepares its own requests, has
its own connections, and keeps responses in a spool that was made before, where they can be read when it has
ended. Processes hear of each other by a `StopSignal` only: when one stops, all do.
"""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, Protocol

from kdissect.replay.engine.pass_results import PassOutcome
from kdissect.replay.engine.run_limits import StopSignal


class WorkerLost(Exception):
    """A process ended without a result."""


class Worker(Protocol):
    """Work of one process."""

    @property
    def lead_ns(self) -> int:
        """Return how long it needs from being told when to begin until then."""

    def play(self, start_ns: int) -> PassOutcome:
        """Send its share, from `start_ns` on."""


class _Child(NamedTuple):
    process: BaseProcess
    pipe: Connection


def run_workers(
    makers: Sequence[Callable[[], Worker]], stop_signal: StopSignal, begin: Callable[[int], int]
) -> tuple[int, list[PassOutcome]]:
    """Make and run workers, each in a process. Return when they began, and what came of each.

    `begin` returns from the longest lead when to begin. Raise what a worker raises, and WorkerLost if one
    dies.
    """
    fork = multiprocessing.get_context("fork")
    children = []
    for maker in makers:
        here, there = fork.Pipe()
        process = fork.Process(target=_work, args=(maker, there, here), daemon=True)
        process.start()
        there.close()
        children.append(_Child(process, here))
    try:
        leads = _messages(children, stop_signal)
        start_ns = begin(max(leads))
        for child in children:
            child.pipe.send(start_ns)
        return start_ns, _messages(children, stop_signal)
    finally:
        for child in children:
            child.pipe.close()
            child.process.join(1)
            if child.process.is_alive():
                child.process.kill()


def _work(maker: Callable[[], Worker], pipe: Connection, other_end: Connection) -> None:
    """Be one of the processes."""
    other_end.close()
    for each in (signal.SIGINT, signal.SIGTERM):  # the parent gives the stop signal
        signal.signal(each, signal.SIG_IGN)
    try:
        worker = maker()
        pipe.send(worker.lead_ns)
        outcome = worker.play(pipe.recv())
        pipe.send(outcome)
    except BrokenPipeError:
        pass  # the parent was killed
    except Exception as error:  # noqa: BLE001 - it is raised again where the processes are awaited
        pipe.send(error)


def _messages(children: Sequence[_Child], stop_signal: StopSignal) -> list[Any]:
    """Return the next message of every process.

    Raise what one of them raised, and WorkerLost if one has died.
    """
    messages: dict[Connection, Any] = {}
    pipes = [child.pipe for child in children]
    while len(messages) < len(pipes):
        try:
            for ready in wait([pipe for pipe in pipes if pipe not in messages]):
                assert isinstance(ready, Connection)
                messages[ready] = _message(ready, stop_signal)
        except KeyboardInterrupt:
            stop_signal.give("interrupted")
    failed = next((message for message in messages.values() if isinstance(message, Exception)), None)
    if failed is not None:
        raise failed
    return [messages[pipe] for pipe in pipes]


def _message(pipe: Connection, stop_signal: StopSignal) -> Any:
    try:
        message = pipe.recv()
    except EOFError:
        message = WorkerLost("a process of the replay has died")
    if isinstance(message, Exception):
        stop_signal.give(str(message))
    return message
