"""What is left of a run that is killed: results are written down as they come, and another process waits to save them.

A `CrashJournal` is a file without a name that both processes have open: the one that plays adds what has ended since the last time, some
times a second, and never waits for anybody. `crash_guard` forks the other one before the run begins. It sleeps until it is told that all went
well, or until nobody is left who could tell it; then whatever was written down is all that there is. Of requests that were
ready beforehand the journal has no notes: only the process that plays has made them.
"""

import io
import os
import pickle
import select
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_outcome import (
    PassOutcome,
    merge_outcomes,
    outcome_of,
)
from kdissect.replay.engine.pass_results import RequestResult
from kdissect.replay.engine.player import Player
from kdissect.replay.engine.stop_signal import StopSignal

KEEP_NS = 100_000_000
LOOK_S = 0.5
KILLED = "the replayer was killed"
Entry = tuple[
    int, int, PassOutcome
]  # when the run began, on its clock and by time of day; what has ended since the last entry


class CrashJournal:
    """One process's; to be made before processes part."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="kdissect-")  # noqa: SIM115 - closed by close
        self._kept = 0
        self.due_ns = 0

    def keep(self, player: Player, begin_ns: int, begin_wall_ns: int) -> None:
        """Write down what has ended since the last time."""
        self.due_ns = player.board.now_ns + KEEP_NS
        results = player.results.since(self._kept)
        if not len(results):
            return
        self._kept += len(results)
        player.shelf.flush()
        whole = outcome_of(player)
        ended = results.indices()
        part = PassOutcome(
            results,
            {each: whole.notes[each] for each in ended if each in whole.notes},
            {each: whole.produced[each] for each in ended if each in whole.produced},
            whole.counts,
            tallies=whole.tallies,
            open_transactions=whole.open_transactions,
            peak_in_flight=whole.peak_in_flight,
            peak_lines=whole.peak_lines,
        )
        entry: Entry = begin_ns, begin_wall_ns, part
        self._file.write(pickle.dumps(entry, pickle.HIGHEST_PROTOCOL))
        self._file.flush()

    def read(self) -> list[Entry]:
        """Read it, in another process; an entry that was not finished is none."""
        size = os.fstat(self._file.fileno()).st_size
        data = io.BytesIO(os.pread(self._file.fileno(), size, 0))
        found: list[Entry] = []
        try:
            while True:
                found.append(pickle.load(data))  # noqa: S301 - a file that nobody else can open
        except (EOFError, pickle.UnpicklingError):
            return found

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


def recovered_outcome(journals: Sequence[CrashJournal], requests: int) -> tuple[int, int, PassOutcome]:
    """Give what journals tell of a run that had so many requests: each ends in a bucket even so."""
    begun, outcomes = (0, 0), []
    for journal in journals:
        one = PassOutcome()
        for begin_ns, begin_wall_ns, part in journal.read():
            begun = begin_ns, begin_wall_ns
            one.results.extend(part.results, 0)
            part.results, part.notes, part.produced = (
                one.results,
                one.notes | part.notes,
                one.produced | part.produced,
            )
            one = part
        outcomes.append(one)
    whole = merge_outcomes(outcomes)
    whole.stopped = KILLED
    missing = set(range(requests)).difference(whole.results.indices())
    for index in sorted(missing):
        whole.results.append(RequestResult(index, Disposition.POLICY, f"nothing is known of it: {KILLED}"))
    return *begun, whole


@contextmanager
def crash_guard(rescue: Callable[[], None], word: StopSignal) -> Iterator[None]:
    """Have another process call `rescue` if this one, and all that it has begun, end without leaving this context."""
    heard, told = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if not child:
        os.close(told)
        _guard(heard, parent, rescue, word)
    os.close(heard)
    try:
        yield
    finally:
        os.write(told, b".")
        os.close(told)
        os.waitpid(child, 0)


def _guard(heard: int, parent: int, rescue: Callable[[], None], word: StopSignal) -> None:
    """Be the process that waits. Does not return."""
    try:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        while not select.select([heard], [], [], LOOK_S)[0]:
            if os.getppid() != parent:
                word.give(KILLED)  # to the processes that it had begun
        if not os.read(heard, 1):
            rescue()
    finally:
        os._exit(0)
