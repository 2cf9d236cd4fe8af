"""Progress of Spark's stages, and of the bytes that their tasks have passed."""

from pathlib import Path

import pytest

from kdissect.spark.pass_meters import ByteMeter, PassMeters
from kdissect.spark.progress import describe_stage, metered_state


def test_progress_is_named_after_the_pass() -> None:
    assert describe_stage("mapPartitionsInternal at X", 1, 4) == "kdissect: reading packets, 1 of 4 parts"
    assert describe_stage("collectAsArrowToPython at X", 0, 2) == "kdissect: dissecting, 0 of 2 parts"


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
