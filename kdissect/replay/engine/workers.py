"""A pass on several cores: a process for each share of the connections, begun at one moment, added up in the end.

Processes are forked, so that what was loaded is there without being sent; each makes its own frames ready, has its own links, and
keeps answers on a shelf that was made before, where they can be read when it has ended. They hear of each other by a `StopSignal`
only: when one stops, all do.
"""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, Protocol

from kdissect.replay.engine.pass_outcome import PassOutcome, merge_outcomes
from kdissect.replay.engine.stop_signal import StopSignal


class WorkerLost(Exception):
    """A process ended without saying what it did."""


class Worker(Protocol):
    """What one process plays."""

    @property
    def lead_ns(self) -> int:
        """How long it needs from being told when to begin until then."""

    def play(self, begin_ns: int) -> PassOutcome:
        """Play it."""


class _Child(NamedTuple):
    process: BaseProcess
    ends: Connection


def run_workers(
    acts: Sequence[Callable[[], Worker]], word: StopSignal, begin: Callable[[int], int]
) -> tuple[int, PassOutcome]:
    """Make and play acts, each in a process; `begin` says from the longest lead when to begin. Give that moment and what came of it."""
    fork = multiprocessing.get_context("fork")
    children = []
    for act in acts:
        here, there = fork.Pipe()
        process = fork.Process(target=_play, args=(act, there, here), daemon=True)
        process.start()
        there.close()
        children.append(_Child(process, here))
    try:
        leads = _heard(children, word)
        begin_ns = begin(max(leads))
        for child in children:
            child.ends.send(begin_ns)
        return begin_ns, merge_outcomes(_heard(children, word))
    finally:
        for child in children:
            child.ends.close()
            child.process.join(1)
            if child.process.is_alive():
                child.process.kill()


def _play(act: Callable[[], Worker], ends: Connection, other: Connection) -> None:
    """Be one of the processes."""
    other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for us says the word
    try:
        made = act()
        ends.send(made.lead_ns)
        outcome = made.play(ends.recv())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the loop took while it played
        ends.send(outcome)
    except BrokenPipeError:
        pass  # who waited was killed
    except Exception as error:  # noqa: BLE001 - it is raised again where the processes are waited for
        ends.send(error)


def _heard(children: Sequence[_Child], word: StopSignal) -> list[Any]:
    """Hear one thing of every process. Raises what one of them raised, and Lost if one says nothing."""
    heard: dict[Connection, Any] = {}
    ends = [child.ends for child in children]
    while len(heard) < len(ends):
        try:
            for each in wait([one for one in ends if one not in heard]):
                assert isinstance(each, Connection)
                heard[each] = _one(each, word)
        except KeyboardInterrupt:
            word.give("interrupted")
    failed = next((said for said in heard.values() if isinstance(said, Exception)), None)
    if failed is not None:
        raise failed
    return [heard[each] for each in ends]


def _one(ends: Connection, word: StopSignal) -> Any:
    try:
        said = ends.recv()
    except EOFError:
        said = WorkerLost("a process of the replay has ended without a word")
    if isinstance(said, Exception):
        word.give(str(said))
    return said
