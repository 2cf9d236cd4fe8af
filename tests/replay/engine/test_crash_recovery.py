"""Recovery of a pass whose process is killed, or fails."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, cast

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.crash_recovery import KILLED, CrashJournal, crash_guard, recovered_pass
from kdissect.replay.engine.pass_results import PassOutcome, RequestResult, ResultTable
from kdissect.replay.engine.player import Player
from kdissect.replay.engine.run_limits import StopSignal


class Sending:
    """As much of a player as a journal uses."""

    def __init__(self) -> None:
        self.results = ResultTable()
        self.pool = self.spool = self
        self.now_ns = 0

    def flush(self) -> None:
        """Write nothing."""

    def outcome(self) -> PassOutcome:
        notes = {index: (f"note {index}",) for index in self.results.indices()}
        return PassOutcome(self.results, notes, peak_in_flight=len(self.results))

    def end(self, *indices: int) -> None:
        for index in indices:
            self.results.append(RequestResult(index, Disposition.ANSWERED))


def write(journal: CrashJournal, sending: Sending) -> None:
    journal.write(cast("Player", sending), 5, 1000)


def test_a_journal_has_every_result_once_with_its_notes() -> None:
    journal, sending = CrashJournal(), Sending()
    for indices in ((0, 2), (), (1,)):
        sending.end(*indices)
        write(journal, sending)
    assert [entry.outcome.results.indices() for entry in journal.read()] == [[0, 2], [1]]
    start_ns, start_wall_ns, outcome = recovered_pass([journal], 5, KILLED)
    assert (start_ns, start_wall_ns, outcome.stopped, outcome.peak_in_flight) == (5, 1000, KILLED, 3)
    assert outcome.notes == {index: (f"note {index}",) for index in range(3)}
    ends = {result.index: (result.bucket, result.reason) for result in outcome.results}
    unknown = (Disposition.POLICY, f"nothing is known of it: {KILLED}")
    assert ends == dict.fromkeys(range(3), (Disposition.ANSWERED, "")) | dict.fromkeys((3, 4), unknown)
    journal.close()


def test_an_entry_that_was_not_finished_is_left_out() -> None:
    journal, sending = CrashJournal(), Sending()
    sending.end(0)
    write(journal, sending)
    size = os.fstat(journal._file.fileno()).st_size
    sending.end(1)
    write(journal, sending)
    os.ftruncate(journal._file.fileno(), size + 40)
    assert [entry.outcome.results.indices() for entry in journal.read()] == [[0]]
    journal.close()


@pytest.mark.parametrize("killed", [False, True])
def test_the_guard_saves_only_if_the_process_is_killed(killed: bool, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    child = os.fork()
    if not child:
        try:
            with crash_guard(lambda reason: cast("Any", saved.write_text(reason)), StopSignal()):
                if killed:
                    os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    deadline = time.monotonic() + 20
    while killed and not (saved.exists() and saved.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert saved.exists() == killed
    assert not killed or saved.read_text() == KILLED
