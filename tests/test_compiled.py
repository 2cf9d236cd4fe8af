"""Small captures do not wait for a compiler, and what is compiled for later runs is compiled once."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kdissect import compiled

NEW_PROCESS = """
import sys
from kdissect import compiled
print(compiled.go_without(sys.argv[1:]))
"""


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing was ever compiled."""
    known = {name: value for name, value in os.environ.items() if name != compiled.SWITCH}
    return known | {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def decided(environment: dict[str, str], *paths: Path) -> bool:
    command = [sys.executable, "-P", "-c", NEW_PROCESS, *map(str, paths)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return told.stdout.strip() == "True"


def sized(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_small_captures_go_without(tmp_path: Path, fresh: dict[str, str]) -> None:
    small = sized(tmp_path / "small.pcap", 1 << 20)
    large = sized(tmp_path / "large.pcap", compiled.SMALL_BYTES)
    packed = sized(tmp_path / "packed.pcap.gz", compiled.SMALL_BYTES // 2)
    assert decided(fresh, small)
    assert decided(fresh, large)
    assert not decided(fresh, small, large)
    assert not decided(fresh, packed)
    assert not decided(fresh, tmp_path)
    assert not decided(fresh, Path("-"))
    assert not decided(fresh | {compiled.SWITCH: "1"}, small)


def test_compiled_ones_are_used_as_soon_as_there_are_some(
    tmp_path: Path, fresh: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = sized(tmp_path / "small.pcap", 1 << 20)
    for name, value in fresh.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(compiled.SWITCH, raising=False)
    compiled.home.cache_clear()
    try:
        compiled.keep_all()
        assert compiled.all_kept()
        assert not decided(fresh, small)
    finally:
        compiled.home.cache_clear()


def test_one_process_at_a_time_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: started.append((command, how)))
    compiled.home.cache_clear()
    try:
        assert compiled.compile_behind()
        command, how = started.pop()
        assert command[-1] == "kdissect.pipeline.rehearsal"
        assert compiled.SWITCH not in how["env"]
        with (compiled.home() / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert not compiled.compile_behind()
        assert started == []
    finally:
        compiled.home.cache_clear()


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(sized(tmp_path / "file", 1)))
    compiled.home.cache_clear()
    try:
        assert not compiled.compile_behind()
        compiled.keep_all()
        assert not compiled.all_kept()
    finally:
        compiled.home.cache_clear()
