"""Who was late decides whether a run is valid, the verdict decides the exit code, and `--fail-on` names
figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kdissect.errors import ExitCode, UsageError
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_verdicts import COMPARISON_VOCABULARY, EXIT_CODES
from kdissect.report.thresholds import conditions
from tests.helpers.run_pairs import MS, error, pair, run


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


def test_one_late_request_of_a_short_run_says_nothing() -> None:
    pairs = [delayed(index, "self", 12 if index == 5 else 0) for index in range(89)]
    assert compare(run(89), pairs)["verdict"] == "pass"
    pairs = [delayed(index, "self", 12 if index < 5 else 0) for index in range(89)]
    assert compare(run(89), pairs)["verdict"] == "invalid"  # more than one in twenty


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


REPORT = compare(run(4), [pair(0), pair(1), pair(2), error(3, 0, 10)])


def met(texts: Sequence[str], report: dict[str, object]) -> list[str]:
    return [sentence for each in conditions(texts, COMPARISON_VOCABULARY) for sentence in each.met(report)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("new_error>20%", ["new_error is 25%, more than 20%"]),
        ("new_error>=0.25", ["new_error is 0.25, at least 0.25"]),
        ("new_error>30%, mutated_error>0, failed_checks>1, skipped>0, invalid", []),
        ("error>=25%, failed_checks>=1", ["error is 25%, at least 25%", "failed_checks is 1, at least 1"]),
        ("diverged", ["the verdict is diverged"]),
        ("p99_ratio>1", []),  # of four requests percentiles say little
    ],
)
def test_figures_and_verdicts_are_those_of_the_comparison(text: str, sentences: list[str]) -> None:
    assert met([text], REPORT) == sentences


def test_an_invalid_run_has_diverged_too() -> None:
    report = compare(run(1, stopped="interrupted"), [pair(0)])
    assert met(["diverged", "invalid"], report) == ["the verdict is invalid"] * 2


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        ("", "details of 3 requests were left out, to report at once"),
        ("worker 0 on a is gone", "details of 3 requests are missing"),
    ],
)
def test_details_that_are_not_there_have_their_reason(lost: str, sentence: str) -> None:
    counted = {"requests": 3, "api": "Produce", "bucket": "answered", "reason": "its result was lost"}
    report = compare(run(4, stopped="over", workers=[{"lost": lost}]), [pair(0), counted])
    assert report["because"] == ["incomplete: over", sentence]


@pytest.mark.parametrize("text", ["p99>3", "new_error", "diverged=yes", "p99_ratio>3ms", ""])
def test_what_a_comparison_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        met([text], REPORT)
