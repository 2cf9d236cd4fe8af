"""What `--fail-on` may name for a comparison."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kdissect.errors import UsageError
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_thresholds import COMPARISON_VOCABULARY
from kdissect.report.thresholds import conditions
from tests.helpers.run_pairs import error, pair, run

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


@pytest.mark.parametrize("text", ["p99>3", "new_error", "diverged=yes", "p99_ratio>3ms", ""])
def test_what_a_comparison_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        met([text], REPORT)
