"""Who was late decides whether a run is valid, and the verdict decides the exit code."""

from __future__ import annotations

from typing import Any

import pytest

from kdissect.errors import ExitCode
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_verdicts import EXIT_CODES
from tests.helpers.run_pairs import MS, pair, run


def delayed(index: int, cause: str, lag_ms: int) -> dict[str, Any]:
    made = pair(index)
    made["sent"] |= {
        "sent_ns": made["sent"]["due_ns"] + lag_ms * MS,
        "received_ns": made["sent"]["due_ns"] + (lag_ms + 3) * MS,
        "cause": cause if lag_ms else "",
    }
    return made


@pytest.mark.parametrize(
    ("own", "by_target", "verdict"),
    [
        (0, 0, "pass"),
        (3, 0, "invalid"),  # p99 of its own lag
        (3, 96, "pass"),  # the target made nearly all of them late
        (6, 94, "invalid"),  # more than one in twenty by the replayer
        (1, 0, "pass"),
    ],
)
def test_only_the_replayers_own_delays_make_a_run_invalid(own: int, by_target: int, verdict: str) -> None:
    causes = ["self"] * own + ["in-flight cap"] * by_target
    pairs = [
        delayed(index, causes[index], 40) if index < len(causes) else delayed(index, "", 0)
        for index in range(100)
    ]
    report = compare(run(100), pairs)
    assert report["verdict"] == verdict
    assert report["lag"]["late"] == own + by_target
    assert report["lag"]["own_late"] == own


def test_a_slow_target_is_slow_and_not_wrong() -> None:
    pairs = [delayed(index, "in-flight cap", 40) for index in range(300)]
    for each in pairs:
        each["sent"]["received_ns"] += 50 * MS
    report = compare(run(300), pairs)
    assert report["verdict"] == "pass"
    assert report["performance"]["verdict"] == "slower"
    assert report["performance"]["because"][0] == (
        "p50 of Produce v9: 2.00ms in the capture, 53.0ms on the target"
    )


def test_every_verdict_has_its_exit_code() -> None:
    assert EXIT_CODES == {
        "pass": ExitCode.DONE,
        "diverged": ExitCode.CONDITION_MET,
        "invalid": ExitCode.INVALID,
    }
