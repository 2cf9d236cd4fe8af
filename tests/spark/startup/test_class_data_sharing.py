"""The class archive: made once, by one process, and never believed when it is damaged."""

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kdissect.spark.startup import class_data_sharing
from kdissect.spark.startup.class_data_sharing import (
    MAKER,
    ArchiveFiles,
    ClassArchive,
)
from kdissect.spark.startup.java import Java

CONTENTS = b"classes" * 1000


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "spark.jar"
    path.write_bytes(b"PK")
    return path


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Orders to makers, which are not started."""
    given: list[dict[str, Any]] = []

    def start(module: str, order: str, lock: int, _environment: Mapping[str, str]) -> None:
        assert module == MAKER
        with Path(f"/proc/self/fd/{lock}").open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        given.append(json.loads(order))

    monkeypatch.setattr(class_data_sharing, "start_program", start)
    return given


def open_archive(tmp_path: Path, jar: Path, version: str = "17.0.1", kind: str = "rdd") -> ClassArchive:
    return ClassArchive(tmp_path / "cache", Java(tmp_path / "java", version), [jar], ["-Xmx1g"], kind)


def make(archive: ClassArchive) -> None:
    """Do as the maker does."""
    archive.files.archive.parent.mkdir(exist_ok=True)
    for file in (archive.files.archive, *archive.files.own_jars):
        file.write_bytes(CONTENTS)
    archive.files.seal()


def test_made_then_mapped(tmp_path: Path, jar: Path, orders: list[dict[str, Any]]) -> None:
    first = open_archive(tmp_path, jar)
    assert (first.is_mapped, first.options, first.first_jars) == (False, (), ())
    assert first.make_in_background()
    (order,) = orders
    assert order["java"] == [str(tmp_path / "java"), "-Xmx1g"]
    assert (order["kind"], order["jars"]) == ("rdd", [str(jar)])
    make(first)
    assert not first.make_in_background()  # another run has had it made
    second = open_archive(tmp_path, jar)
    assert second.is_mapped
    assert f"-XX:SharedArchiveFile={second.files.archive}" in second.options
    assert second.first_jars == (tmp_path / "cache" / f"{order['name']}.jar",)
    assert not second.make_in_background()
    assert len(orders) == 1


def test_without_functions_there_is_no_jar_of_them(
    tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDISSECT_STARTUP", "-function_classes")
    make(open_archive(tmp_path, jar))
    mapped = open_archive(tmp_path, jar)
    assert (mapped.is_mapped, mapped.first_jars) == (True, ())
    monkeypatch.delenv("KDISSECT_STARTUP")
    assert not open_archive(tmp_path, jar).is_mapped


def test_one_process_at_a_time_makes_it(tmp_path: Path, jar: Path, orders: list[dict[str, Any]]) -> None:
    archive = open_archive(tmp_path, jar)
    archive.files.lock.parent.mkdir()
    with archive.files.lock.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not archive.make_in_background()
    assert archive.make_in_background()
    assert len(orders) == 1


def test_each_kind_of_run_has_its_own(tmp_path: Path, jar: Path) -> None:
    make(open_archive(tmp_path, jar))
    other = open_archive(tmp_path, jar, kind="sql")
    assert not other.is_mapped
    make(other)
    assert open_archive(tmp_path, jar).is_mapped
    assert open_archive(tmp_path, jar, kind="sql").is_mapped


@pytest.mark.parametrize("damage", [b"", CONTENTS[:-1], CONTENTS[:-1] + b"?", b"?" + CONTENTS[1:]])
@pytest.mark.parametrize("kind", [".jsa", ".jar"])
def test_damaged_files_are_made_anew(tmp_path: Path, jar: Path, damage: bytes, kind: str) -> None:
    first = open_archive(tmp_path, jar)
    make(first)
    first.files.archive.with_suffix(kind).write_bytes(damage)
    again = open_archive(tmp_path, jar)
    assert not again.is_mapped
    make(again)
    assert open_archive(tmp_path, jar).is_mapped


@pytest.mark.parametrize("seal", ["", "[]", "{"])
def test_a_damaged_seal_is_not_believed(tmp_path: Path, jar: Path, seal: str) -> None:
    first = open_archive(tmp_path, jar)
    make(first)
    first.files.archive.with_suffix(".seal").write_text(seal)
    assert not open_archive(tmp_path, jar).is_mapped


def test_another_java_or_other_jars_have_another_archive(tmp_path: Path, jar: Path) -> None:
    make(open_archive(tmp_path, jar))
    assert not open_archive(tmp_path, jar, version="21.0.1").is_mapped
    jar.write_bytes(b"PK, but longer")
    assert not open_archive(tmp_path, jar).is_mapped


def test_what_the_jvm_fails_over_is_discarded(tmp_path: Path, jar: Path) -> None:
    make(open_archive(tmp_path, jar))
    archive = open_archive(tmp_path, jar)
    archive.discard()
    assert archive.options == ()
    assert not open_archive(tmp_path, jar).is_mapped


def test_an_archive_that_cannot_be_made_is_not_tried_by_every_run(
    tmp_path: Path, jar: Path, orders: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = open_archive(tmp_path, jar)
    archive.files.archive.parent.mkdir()
    archive.files.fail()
    assert not archive.make_in_background()
    monkeypatch.setattr("kdissect.spark.startup.class_data_sharing.FAILED_SECONDS", 0)
    assert archive.make_in_background()
    assert len(orders) == 1


def test_old_archives_of_others_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.cache_directory.KEPT_SECONDS", -1)
    old, new = (ArchiveFiles(tmp_path, f"classes-{name}", has_functions=True) for name in ("old", "new"))
    for files in (old, new):
        for file in (files.archive, *files.own_jars):
            file.write_bytes(CONTENTS)
        files.archive.with_suffix(".recording").mkdir()
        files.seal()
    assert not old.are_whole()
    assert new.are_whole()
    assert not list(tmp_path.glob("classes-old*"))


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, jar: Path, orders: list[dict[str, Any]]
) -> None:
    (tmp_path / "cache").write_text("a file where the directory should be")
    archive = open_archive(tmp_path, jar)
    assert (archive.is_mapped, archive.make_in_background(), orders) == (False, False, [])
