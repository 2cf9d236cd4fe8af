"""Several processes: they begin together, hear of each other, and what they leave is merged."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from kdissect.forked_process import ProcessLostError
from kdissect.replay.engine.pass_results import PassOutcome, merge_outcomes
from kdissect.replay.engine.run_limits import StopSignal
from kdissect.replay.engine.workers import run_workers


class Pretended:
    """A worker that tells what it was told."""

    def __init__(self, number: int, stop: StopSignal) -> None:
        self.lead_ns, self._number, self._stop = 10 * (number + 1), number, stop

    def play(self, start_ns: int) -> PassOutcome:
        if self._number == 5:
            os._exit(1)
        if self._number == 4:
            raise ValueError("not a target")
        while self._number and not self._stop.reason:
            time.sleep(0.001)
        self._stop.give("enough")
        return PassOutcome(counts=Counter({f"from {start_ns}": self._number}), stopped=self._stop.reason)


def test_processes_begin_together_and_stop_together() -> None:
    stop = StopSignal()
    makers = [lambda number=number: Pretended(number, stop) for number in range(3)]
    start_ns, outcomes = run_workers(makers, stop, lambda lead_ns: 1000 + lead_ns)
    outcome = merge_outcomes(outcomes)
    assert start_ns == 1030
    assert outcome.counts == {"from 1030": 3}
    assert outcome.stopped == "enough"


@pytest.mark.parametrize(("number", "error"), [(4, ValueError), (5, ProcessLostError)])
def test_a_process_that_fails_ends_the_run(number: int, error: type[Exception]) -> None:
    stop = StopSignal()
    makers = [lambda each=each: Pretended(each, stop) for each in (1, number)]
    with pytest.raises(error):
        run_workers(makers, stop, lambda lead_ns: lead_ns)
    assert stop.reason
