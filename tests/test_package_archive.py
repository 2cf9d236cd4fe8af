"""The package on its way to executors: packed, unpacked once, and the same bytes for the same contents."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kdissect.package_archive import ARCHIVE, PACKAGE, pack, unpacked


def test_equal_contents_are_equal_archives(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = pack(tmp_path / "a"), pack(tmp_path / "b")
    assert one.name == ARCHIVE
    assert one.read_bytes() == other.read_bytes()


def test_everything_but_compiled_python_is_in_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(pack(tmp_path)) as archive:
        names = set(archive.namelist())
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert names == {f"kdissect/{path.relative_to(PACKAGE).as_posix()}" for path in files}


def test_an_archive_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = unpacked(pack(tmp_path))
    assert (package / "__init__.py").read_bytes() == (PACKAGE / "__init__.py").read_bytes()
    mark = package / "mark"
    mark.touch()
    assert unpacked(tmp_path / ARCHIVE) == package
    assert mark.exists()


def test_without_a_cache_the_working_directory_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    archive = pack(tmp_path)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert unpacked(archive).is_relative_to(tmp_path / "work")


def test_a_cache_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = pack(tmp_path)
    planted = unpacked(archive)
    (tmp_path / "cache" / "kdissect").chmod(0o777)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    package = unpacked(archive)
    assert package != planted
    assert package.is_relative_to(tmp_path / "work")
    assert (package / "__init__.py").read_bytes() == (PACKAGE / "__init__.py").read_bytes()


def test_a_python_that_has_only_the_archive_reads_the_schemas(tmp_path: Path) -> None:
    archive = pack(tmp_path)
    program = "from kdissect.protocol.schema.registry import APIS; print(APIS[3].name)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PYTHONPATH": str(archive), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/usr/bin"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("Metadata\n", "")
