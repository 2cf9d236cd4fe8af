"""Two first runs at once, on a cache that is empty: both succeed, and what they leave serves the next run."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kdissect.jit.kernel_cache import SWITCH
from kdissect.spark.startup.warmup import CAPTURES
from tests.helpers.command import environment

SMALL = next(path for path in CAPTURES if path.suffix == ".pcapng")
KERNEL = """
import sys
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.formats import pcapng
packets = index_captures([CaptureFile(sys.argv[1], "")]).packets
print(packets, sum(pcapng.read_blocks.stats.cache_hits.values()))
"""


@pytest.fixture
def empty(tmp_path: Path) -> dict[str, str]:
    """An environment whose cache is empty."""
    known = {name: value for name, value in environment().items() if name not in {SWITCH, "NUMBA_CACHE_DIR"}}
    return known | {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def both(command: list[str], environment: dict[str, str]) -> list[tuple[str, str]]:
    """Run a command twice at once; give what each said."""
    runs = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    return said


@pytest.mark.spark
@pytest.mark.thorough  # startup/test_archive_maker.py makes one
def test_the_class_archive(empty: dict[str, str], tmp_path: Path) -> None:
    analyze = [sys.executable, "-P", "-m", "kdissect", "analyze", str(SMALL)]
    environment = empty | {SWITCH: "0"}
    (one, told), (other, told_too) = both(analyze, environment)
    assert one == other != ""
    assert (told + told_too).count("first run: storing Spark's classes") == 1
    cache = tmp_path / "cache" / "kdissect"
    patience = time.monotonic() + 120
    while not list(cache.glob("*.seal")) and time.monotonic() < patience:  # made in the background
        time.sleep(0.1)
    kept = sorted(path.suffix for path in cache.iterdir() if path.name.startswith("classes-"))
    assert kept == [".jar", ".jsa", ".lock", ".seal"]
    before = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    third = subprocess.run(analyze, env=environment, capture_output=True, text=True, check=True)
    assert third.stdout == one
    assert "first run" not in third.stderr
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == before


@pytest.mark.slow
def test_compiled_kernels(empty: dict[str, str]) -> None:
    survey = [sys.executable, "-P", "-c", KERNEL, str(SMALL)]
    (one, _), (other, _) = both(survey, empty)
    packets = one.split()[0]
    assert other.split()[0] == packets
    third = subprocess.run(survey, env=empty, capture_output=True, text=True, check=True)
    assert third.stdout.split() == [packets, "1"]


@pytest.mark.slow
@pytest.mark.thorough  # jit/test_cache_repair.py damages the file of one kernel
def test_kernels_of_a_cache_that_went_bad(empty: dict[str, str]) -> None:
    survey = [sys.executable, "-P", "-c", KERNEL, str(SMALL)]
    one = subprocess.run(survey, env=empty, capture_output=True, text=True, check=True)
    for index in Path(empty["XDG_CACHE_HOME"]).rglob("*.nbi"):
        os.truncate(index, 10)
    other = subprocess.run(survey, env=empty, capture_output=True, text=True, check=True)
    assert one.stdout.split() == other.stdout.split()
    assert other.stdout.split()[1] == "0"
