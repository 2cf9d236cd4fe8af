"""Progress of indexing and of Spark's stages."""

import io

import pytest

from kdissect.spark import progress
from kdissect.spark.progress import describe_stage


def test_progress_is_named_after_the_pass() -> None:
    assert describe_stage("mapPartitionsInternal at X", 1, 4) == "kdissect: reading packets, 1 of 4 parts"
    assert describe_stage("collectAsArrowToPython at X", 0, 2) == "kdissect: dissecting, 0 of 2 parts"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_survey_is_told_of(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    said = io.StringIO()
    monkeypatch.setattr(said, "isatty", lambda: terminal)
    with progress.IndexProgress(stream=said) as told:
        told(1 * 10**9, 8 * 10**9)
        assert said.getvalue() == ""  # a survey that is short needs no progress
        now[0] += 40
        told(2 * 10**9, 8 * 10**9)
        told(3 * 10**9, 8 * 10**9)
    line = "kdissect: indexing captures, 2.0 of 8.0 GB"
    assert said.getvalue() == (f"\r\x1b[K{line}\r\x1b[K" if terminal else f"{line}\n")
