"""Small captures do not wait for a compiler, and what is compiled for later runs is compiled once."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.background_program import LOWEST_PRIORITY, USUAL_PRIORITY
from kdissect.jit import kernel_cache
from kdissect.jit.kernel_sources import PACKAGE
from tests.helpers import command

NEW_PROCESS = """
import sys
from kdissect.jit import kernel_cache as compiled
print(compiled.run_uncompiled(sys.argv[1:]))
"""


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing was ever compiled."""
    inherited = {kernel_cache.SWITCH, "NUMBA_CACHE_DIR"}
    known = {name: value for name, value in command.environment().items() if name not in inherited}
    return known | {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def decided(environment: dict[str, str], *paths: Path) -> bool:
    program = [sys.executable, "-P", "-c", NEW_PROCESS, *map(str, paths)]
    told = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    return told.stdout.strip() == "True"


def sized(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_small_captures_go_without(tmp_path: Path, fresh: dict[str, str]) -> None:
    small = sized(tmp_path / "small.pcap", 1 << 20)
    large = sized(tmp_path / "large.pcap", kernel_cache.SMALL_BYTES)
    packed = sized(tmp_path / "packed.pcap.gz", kernel_cache.SMALL_BYTES // 2)
    assert decided(fresh, small)
    assert decided(fresh, large)
    assert not decided(fresh, small, large)
    assert not decided(fresh, packed)
    assert not decided(fresh, tmp_path)
    assert not decided(fresh, Path("-"))
    assert not decided(fresh | {kernel_cache.SWITCH: "1"}, small)


def test_compiled_ones_are_used_as_soon_as_there_are_some(
    tmp_path: Path, fresh: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = sized(tmp_path / "small.pcap", 1 << 20)
    for name, value in fresh.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(kernel_cache.SWITCH, raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    kernel_cache.kernel_home.cache_clear()
    try:
        kernel_cache.mark_complete()
        assert kernel_cache.is_complete()
        assert not decided(fresh, small)
    finally:
        kernel_cache.kernel_home.cache_clear()


def test_files_of_other_versions_go_when_they_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(kernel_cache.SWITCH, raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    kernel_cache.kernel_home.cache_clear()
    try:
        mine, cache = kernel_cache.kernel_home(), kernel_cache.kernel_home().parent
        (cache / "sources-1.json").touch()
        (cache / "sources-2.json").touch()
        for kernels in (mine, cache / "kernels-1", cache / "kernels-2"):
            kernels.mkdir()
        for old in (mine, cache / "kernels-1", cache / "sources-1.json"):
            os.utime(old, (0, 0))
        kernel_cache.mark_complete()
        left = {path.name for path in cache.iterdir()}
        assert left >= {mine.name, "kernels-2", "sources-2.json"}
        assert not left & {"kernels-1", "sources-1.json"}
    finally:
        kernel_cache.kernel_home.cache_clear()


def test_a_cache_of_the_user_s_own_does_not_make_ours_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.delenv(kernel_cache.SWITCH, raising=False)
    kernel_cache.kernel_home.cache_clear()
    try:
        kernel_cache.mark_complete()
        assert not kernel_cache.is_complete()
    finally:
        kernel_cache.kernel_home.cache_clear()


def test_one_process_at_a_time_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: started.append((command, how)))
    kernel_cache.kernel_home.cache_clear()
    try:
        assert kernel_cache.compile_in_background()
        command, how = started.pop()
        assert command[-2:] == ["kdissect.spark.startup.compile_kernels", str(LOWEST_PRIORITY)]
        assert kernel_cache.SWITCH not in how["env"]
        with (kernel_cache.kernel_home() / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert not kernel_cache.compile_in_background()
        assert started == []
    finally:
        kernel_cache.kernel_home.cache_clear()


class Compiling:
    """A process that compiles: it is done when somebody waits for it."""

    def __init__(self, command: list[str]) -> None:
        self.command = command

    def wait(self) -> int:
        kernel_cache.mark_complete()
        return 0


def test_a_run_that_lacks_kernels_waits_for_a_process_that_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv(kernel_cache.SWITCH, raising=False)
    started: list[Compiling] = []

    def start(command: list[str], **_how: object) -> Compiling:
        started.append(Compiling(command))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    kernel_cache.kernel_home.cache_clear()
    try:
        assert kernel_cache.compile_first()
        assert started[0].command[-1] == str(USUAL_PRIORITY)
        assert not kernel_cache.compile_first()
        assert len(started) == 1
    finally:
        kernel_cache.kernel_home.cache_clear()


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(sized(tmp_path / "file", 1)))
    kernel_cache.kernel_home.cache_clear()
    try:
        assert not kernel_cache.compile_in_background()
        kernel_cache.mark_complete()
        assert not kernel_cache.is_complete()
    finally:
        kernel_cache.kernel_home.cache_clear()


COPIED = """
import numpy
from kdissect.jit import kernel_cache
from kdissect.jit.kernel_sources import PACKAGE
from kdissect.tables.log_ends import move_ends

move_ends(numpy.full((2, 3), -1), numpy.full((4, 3), -1))
print(kernel_cache.kernel_home().name, sum(move_ends.stats.cache_hits.values()))
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_another_installation_of_the_same_sources_finds_the_kernels(
    tmp_path: Path, fresh: dict[str, str]
) -> None:
    def run(place: str) -> list[str]:
        shutil.copytree(PACKAGE, tmp_path / place / "kdissect")
        for source in (tmp_path / place).rglob("*.py"):
            os.utime(source)
        environment = fresh | {kernel_cache.SWITCH: "1", "PYTHONPATH": str(tmp_path / place)}
        program = [sys.executable, "-P", "-c", COPIED]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    (name, before), (same, after) = run("here"), run("there")
    assert name == same
    assert (before, after) == ("0", "1")


ASKED_ONCE = """
import tempfile
made = []

class Counted:
    def __init__(self, dir):
        made.append(dir)
    def close(self):
        pass

tempfile.TemporaryFile = Counted
import kdissect.report.aggregate.group_loops, kdissect.tables.log_ends
print(len(made), len(set(made)))
"""


def test_numba_tries_each_directory_of_the_cache_once(fresh: dict[str, str]) -> None:
    """It would make a file for each kernel, which took a tenth of a millisecond."""
    program = [sys.executable, "-P", "-c", ASKED_ONCE]
    done = subprocess.run(
        program, env=fresh | {kernel_cache.SWITCH: "1"}, capture_output=True, text=True, check=True
    )
    made, directories = map(int, done.stdout.split())
    assert made == directories > 1


READ_ONLY = """
import os, tempfile
import kdissect.jit.decorators
from numba.core.caching import IndexDataCacheFile

def refuse(*_arguments, **_options):
    raise PermissionError

os.access = lambda _path, mode: mode != os.W_OK
tempfile.TemporaryFile = IndexDataCacheFile._open_for_write = refuse
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_a_cache_that_may_only_be_read_serves(fresh: dict[str, str]) -> None:
    def hits(code: str) -> str:
        program = [sys.executable, "-P", "-c", code]
        done = subprocess.run(
            program, env=fresh | {kernel_cache.SWITCH: "1"}, capture_output=True, text=True, check=True
        )
        return done.stdout.split()[1]

    assert hits(COPIED) == "0"
    index = next(Path(fresh["XDG_CACHE_HOME"]).rglob("*.nbi"))
    assert hits(READ_ONLY + COPIED) == "1"
    index.unlink()
    assert hits(READ_ONLY + COPIED) == "0"  # compiled for this run alone
    assert not index.exists()


def test_a_directory_with_links_to_itself_is_small(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).symlink_to(".")
    (tmp_path / "a.pcap").write_bytes(bytes(100))
    assert kernel_cache.are_small([str(tmp_path)])
