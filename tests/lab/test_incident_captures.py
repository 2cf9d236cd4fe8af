"""First lines that were right for the recordings in the repository stay right."""

from __future__ import annotations

import json

import pytest
import zstandard

from kdissect.spark.in_process import InProcessEngine
from kdissect.spark.spark_settings import SparkSettings
from tests.lab.score import IN_REPOSITORY, LIST, judge, kept, recordings

MEGABYTE = 1_000_000


@pytest.mark.timeout(1200)
def test_no_right_first_line_gets_lost() -> None:
    before = json.loads((IN_REPOSITORY / LIST).read_text())
    with InProcessEngine.start(SparkSettings()) as engine:  # in half the time that Spark takes
        now = kept(judge(engine, recordings([IN_REPOSITORY])))
    assert before["right"]
    assert set(before["right"]) <= set(now["right"])
    assert set(before["culprit"]) <= set(now["culprit"])


def test_recordings_stay_small() -> None:
    sizes = [path.stat().st_size for path in IN_REPOSITORY.iterdir()]
    assert max(sizes) < 2 * MEGABYTE
    assert sum(sizes) < 15 * MEGABYTE


def test_each_recording_is_whole() -> None:
    for path in IN_REPOSITORY.glob("*.zst"):
        content = path.read_bytes()
        unpacked = zstandard.ZstdDecompressor().decompress(content)  # raises at one that is cut off
        assert len(unpacked) == zstandard.frame_content_size(content), path.name


def test_each_recording_has_its_truth() -> None:
    captures = {path.name.removesuffix(".pcapng.zst") for path in IN_REPOSITORY.glob("*.pcapng.zst")}
    truths = {path.stem for path in IN_REPOSITORY.glob("*.json")} - {LIST.removesuffix(".json")}
    assert captures == truths
    for name in truths:
        truth = json.loads((IN_REPOSITORY / f"{name}.json").read_text())
        assert f"{truth['scenario']}-{truth['seed']}" == name
        assert truth["healthy"] == (truth["cause"] is None)
