"""Progress of indexing and of Spark's stages."""

import io
from pathlib import Path

import pytest

from kdissect.spark import progress
from kdissect.spark.pass_meters import ByteMeter, PassMeters
from kdissect.spark.progress import describe_stage, metered_state


def test_progress_is_named_after_the_pass() -> None:
    assert describe_stage("mapPartitionsInternal at X", 1, 4) == "kdissect: reading packets, 1 of 4 parts"
    assert describe_stage("collectAsArrowToPython at X", 0, 2) == "kdissect: dissecting, 0 of 2 parts"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_survey_is_told_of(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdissect.spark.progress.time.monotonic", lambda: now[0])
    said = io.StringIO()
    monkeypatch.setattr(said, "isatty", lambda: terminal)
    with progress.IndexProgress(stream=said) as told:
        told(1 * 10**9, 8 * 10**9)
        assert said.getvalue() == ""  # a survey that is short needs no progress
        now[0] += 40
        told(2 * 10**9, 8 * 10**9)
        told(3 * 10**9, 8 * 10**9)
    line = "kdissect: indexing captures, 1.86 GiB of 7.45 GiB, about 2 min left"
    assert said.getvalue() == (f"\r\x1b[K{line}\r\x1b[K" if terminal else f"{line}\n")


def test_progress_in_bytes_with_the_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdissect.spark.progress.time.monotonic", lambda: now[0])
    meters = PassMeters(ByteMeter(str(tmp_path / "a")), ByteMeter(str(tmp_path / "b")), 100 << 20)
    state = metered_state(meters, lambda: "writing")
    assert state() == "kdissect: reading packets, 0 B of 100 MiB"
    now[0] += 10
    meters.scanned.append(50 << 20)
    assert state() == "kdissect: reading packets, 50.0 MiB of 100 MiB, about 30 s left"
    meters.scanned.append(50 << 20)
    now[0] += 10
    meters.dissected.append(20 << 20)
    assert state() == "kdissect: dissecting, 20.0 MiB of 100 MiB, about 13 s left"
    meters.dissected.append(80 << 20)
    assert state() == "writing"
