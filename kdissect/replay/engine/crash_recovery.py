"""Recovery of a pass whose process is killed.

Results are written down as they come, and another process saves them.

A `CrashJournal` is a file without a name that both processes have open. The one that sends adds what has
ended since the last time, ten times a second, and never waits for anybody. `crash_guard` forks the other
process before the pass begins. It sleeps until it is told that all went well, or until nobody is left who
could tell it; then what the journal has is all that there is. The journal has no notes on requests that were
prepared ahead: only the process that sends has made them.
"""

import io
import os
import pickle
import select
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import PassOutcome, merge_outcomes
from kdissect.replay.engine.player import Player
from kdissect.replay.engine.run_limits import StopSignal
from kdissect.replay.pass_state import add_values

WRITE_NS = 100_000_000
LOOK_S = 0.5  # how often the guard looks whether its parent lives
KILLED = "the replayer was killed"


class JournalEntry(NamedTuple):
    """Requests that ended since the last entry."""

    start_ns: int  # when the pass began, on the clock of the run,
    start_wall_ns: int  # and since the epoch
    outcome: PassOutcome


class _FromStart(io.RawIOBase):
    """An open file from its beginning. Its own position stays, since others write there."""

    def __init__(self, file: int) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # one kind of buffer
        data = os.pread(self._file, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class CrashJournal:
    """The journal of one process; to be made before processes are forked."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="kdissect-")  # noqa: SIM115 - closed by close
        self._written = 0  # results
        self.due_ns = 0  # when to write the next entry, on the clock of the run

    def write(self, player: Player, start_ns: int, start_wall_ns: int) -> None:
        """Write down what has ended since the last time."""
        self.due_ns = player.pool.now_ns + WRITE_NS
        results = player.results.since(self._written)
        if not len(results):
            return
        self._written += len(results)
        player.spool.flush()
        complete = player.outcome()
        ended = results.indices()
        part = PassOutcome(
            results,
            {index: complete.notes[index] for index in ended if index in complete.notes},
            {index: complete.produced[index] for index in ended if index in complete.produced},
            complete.counts,
            counters=complete.counters,
            open_transactions=complete.open_transactions,
            topic_names=complete.topic_names,
            commits=complete.commits,
            peak_in_flight=complete.peak_in_flight,
            peak_connections=complete.peak_connections,
        )
        pickle.dump(JournalEntry(start_ns, start_wall_ns, part), self._file, pickle.HIGHEST_PROTOCOL)
        self._file.flush()

    def read(self) -> Iterator[JournalEntry]:
        """Yield all entries, in any process; one that was not finished is left out."""
        data = io.BufferedReader(_FromStart(self._file.fileno()))
        try:
            while True:
                yield pickle.load(data)  # noqa: S301 - a file that nobody else can open
        except (EOFError, pickle.UnpicklingError):
            return

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


def recovered_pass(journals: Sequence[CrashJournal], requests: int, reason: str) -> JournalEntry:
    """Return what journals tell of a pass over so many requests, which ended for this reason.

    Requests of which they tell nothing are skipped, so that each one ends in a disposition even so.
    """
    start_ns = start_wall_ns = 0
    outcomes = []
    for journal in journals:
        outcome = PassOutcome()
        for entry in journal.read():
            start_ns, start_wall_ns = entry.start_ns, entry.start_wall_ns
            outcome = _continued(outcome, entry.outcome)
        outcomes.append(outcome)
    merged = merge_outcomes(outcomes)
    merged.stopped = reason
    known = np.zeros(requests, bool)
    known[merged.results.indices()] = True
    unknown = np.flatnonzero(~known)
    merged.results.append_all_skipped(unknown, Disposition.POLICY, f"nothing is known of it: {reason}")
    return JournalEntry(start_ns, start_wall_ns, merged)


def _continued(before: PassOutcome, part: PassOutcome) -> PassOutcome:
    """Return an outcome with what came after it; counts are of the whole pass in every part."""
    before.results.extend(part.results, 0)
    part.results = before.results
    add_values(before.notes, part.notes)
    add_values(before.produced, part.produced)
    part.notes, part.produced = before.notes, before.produced
    return part


@contextmanager
def crash_guard(save: Callable[[str], None], stop_signal: StopSignal) -> Iterator[None]:
    """Have another process call `save` if this one, and those that it has begun, die inside this context."""
    heard, told = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if not child:
        os.close(told)
        _guard(heard, parent, save, stop_signal)
    os.close(heard)
    try:
        yield
    finally:
        os.write(told, b".")
        os.close(told)
        os.waitpid(child, 0)


def _guard(heard: int, parent: int, save: Callable[[str], None], stop_signal: StopSignal) -> None:
    """Be the process that waits. Does not return."""
    try:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        while not select.select([heard], [], [], LOOK_S)[0]:
            if os.getppid() != parent:
                stop_signal.give(KILLED)  # to the processes that it had begun
        if not os.read(heard, 1):
            save(KILLED)
    finally:
        os._exit(0)
