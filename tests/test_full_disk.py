"""A disk without room: one sentence, exit code 2, and nothing left of what could not be written."""

import gzip
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kdissect.replay.results.run_files import write_run
from kdissect.spark.failures import DiskFullError, job_error
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from kdissect.spark.startup.jvm import GatewayError
from tests.helpers.command import COMMAND, environment, kdissect
from tests.helpers.command_here import kdissect_here
from tests.helpers.tiers import thorough_after

CAPTURES = Path(__file__).parents[1] / "captures"
CAPTURE = CAPTURES / "broker-restart.pcapng"


@pytest.fixture
def tiny(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of 32 KiB, or what a parameter says."""
    place = tmp_path / "tiny"
    place.mkdir()
    options = getattr(request, "param", "size=32k")
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def assert_told(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("kdissect: ")
    assert "no space left" in done.stderr


@pytest.mark.slow
def test_analyze(tiny: Path) -> None:
    done = kdissect_here(
        "analyze", "--quiet", CAPTURE, "--out", tiny / "report", "--html", tiny / "page.html"
    )
    assert_told(done)
    assert [path.name for path in tiny.iterdir()] == ["report"]
    assert list((tiny / "report").iterdir()) == []


@pytest.mark.spark
def test_export(tiny: Path) -> None:
    done = kdissect("export", "--quiet", CAPTURE, "--table", "exchanges", "--out", tiny / "tables")
    assert_told(done)
    assert list(tiny.iterdir()) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "tiny", thorough_after(1, ["size=32k", "nr_inodes=7", "nr_inodes=2", "nr_inodes=12"]), indirect=True
)
def test_temporary_files(tiny: Path) -> None:
    """Spark has its shuffle there, and compressed captures are decompressed to it."""
    assert_told(kdissect("analyze", "--quiet", "--master", "local[2]", CAPTURE, TMPDIR=str(tiny)))
    assert not [path for path in tiny.iterdir() if path.name.startswith("kdissect-")]


@pytest.mark.spark
def test_a_jvm_that_cannot_write_what_is_waited_for(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tiny))
    with Engine.start(SparkSettings(cache=tmp_path / "cache")) as engine:
        with suppress(OSError), (tiny / "full").open("wb", buffering=0) as file:
            while file.write(bytes(1024)):
                pass
        with pytest.raises(GatewayError, match="No space left") as told:
            engine.context()
        assert isinstance(job_error(told.value, engine.log), DiskFullError)


def test_captures_that_are_decompressed(tiny: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.pcapng.gz"
    packed.write_bytes(gzip.compress(CAPTURE.read_bytes(), 1))
    done = kdissect("dump", packed, TMPDIR=str(tiny))
    assert_told(done)
    assert "TMPDIR" in done.stderr
    assert list(tiny.iterdir()) == []


@pytest.mark.slow
def test_standard_output(tiny: Path) -> None:
    with (tiny / "dump.txt").open("wb") as out:
        done = subprocess.run(
            [*COMMAND, "dump", str(CAPTURE)],
            stdout=out,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
            check=False,
        )
    assert_told(done)


def test_the_files_of_a_run(tiny: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        write_run(tiny / "run", {}, ("x" * 1000 for _ in range(100)))
    assert list(tiny.iterdir()) == []
