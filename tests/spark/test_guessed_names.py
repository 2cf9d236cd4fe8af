"""Figures with guessed names are those with all names, whether the guess was right or not."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.index.splits import Split
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts, Summary
from kdissect.spark import jobs, tasks
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.guessed_names import first_split, guess_names
from kdissect.spark.in_process_backend import InProcessBackend
from kdissect.spark.task_tables import TableOptions
from kdissect.tables.filters import CaptureNames, Filter
from tests.helpers.local_scans import scanned_here
from tests.helpers.tiers import thorough_after
from tests.spark.conftest import CAPTURES
from tests.spark.test_jobs import SplitsOf

STEADY = CAPTURES / "steady.pcapng"
TOPICS = {"one": ("orders",), "pattern": ("*",), "none": ("nobody",)}


def work_on(splits: Sequence[Split], folder: Path, wanted: Filter, ahead: int = 1000) -> AnalysisWork:
    """Return work on splits of which some were scanned ahead."""
    work = AnalysisWork(tuple(splits), partitions=3, treatment=TableOptions(wanted))
    return replace(work, ahead=scanned_here(splits[:ahead], work.shares(2), folder))


def report(work: AnalysisWork) -> Summary:
    """Return the report on work."""
    return build_report(jobs.merge_figures(jobs.figures(InProcessBackend(), work)).partial, CaptureFacts())


def jobs_counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an entry for each run of a step of pass two."""
    seen: list[str] = []
    for module, name in ((jobs, "summary_step"), (tasks, "known_step")):
        step = getattr(module, name)

        def counted(*arguments: Any, name: str = name, step: Any = step, **options: Any) -> Any:
            seen.append(name)
            return step(*arguments, **options)

        monkeypatch.setattr(module, name, counted)
    return seen


@pytest.mark.parametrize("topics", TOPICS.values(), ids=TOPICS)
@pytest.mark.parametrize("ahead", thorough_after(1, [1, 1000]))
def test_a_right_guess_needs_one_job(
    splits_of: SplitsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topics: tuple[str, ...], ahead: int
) -> None:
    """Names alone are learnt if the first split has no topic that is wanted."""
    splits = splits_of(STEADY, split_bytes=1_000_000)
    work = work_on(splits, tmp_path, Filter(topics=topics), ahead)
    plain = report(work)
    guessing = work.with_guess()
    assert guessing.guess_by
    seen = jobs_counted(monkeypatch)
    assert report(guessing) == plain
    learnt = ["known_step"] if topics == ("nobody",) else []
    assert seen == ["known_step"] * len(guessing.guess_by) + learnt + ["summary_step"]


WRONG = {
    "of another id": CaptureNames({"AAAAAAAAAAAAAAAAAAAAAA": "orders"}, {}),
    "of too few": CaptureNames({}, {}),
}


@pytest.mark.parametrize("topics", {"one": ("orders",), "pattern": ("*",)}.values())
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_guess_changes_nothing(
    splits_of: SplitsOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topics: tuple[str, ...],
    wrong: CaptureNames,
) -> None:
    work = work_on(splits_of(STEADY), tmp_path, Filter(topics=topics))
    plain = report(work)
    monkeypatch.setattr(jobs, "guess_names", lambda *_: wrong)
    seen = jobs_counted(monkeypatch)
    assert report(work.with_guess()) == plain
    assert seen == ["summary_step", "summary_step"]


def test_nothing_is_guessed_without_a_first_split_or_where_addresses_are_needed(
    splits_of: SplitsOf, tmp_path: Path
) -> None:
    splits = splits_of(STEADY)
    work = work_on(splits, tmp_path, Filter(topics=("orders",)))
    first = first_split(work.ahead, splits, work.treatment)
    assert first
    assert guess_names(first, splits, work.treatment)
    assert guess_names(first, splits, TableOptions(Filter(topics=("nobody",)))) is None
    assert first_split(None, splits, work.treatment) is None
    with_node = TableOptions(Filter(topics=("orders",), brokers=("2",)))
    assert first_split(work.ahead, splits, with_node) is None
    assert first_split(work.ahead, splits, TableOptions(Filter(apis=frozenset({1})))) is None


def test_only_the_first_split_is_read_for_a_guess(splits_of: SplitsOf, tmp_path: Path) -> None:
    splits = splits_of(STEADY, split_bytes=100_000)
    work = work_on(splits, tmp_path, Filter(topics=("orders",)))
    first = first_split(work.ahead, splits, work.treatment)
    assert first
    assert {ordinal for ordinal, _ in first} == {0}
    assert len(first) == 3
    behind = scanned_here(splits[1:], work.shares(2), tmp_path)
    assert first_split(behind, splits, work.treatment) is None
