"""The class archive: recorded once, by one run, and never believed when it is damaged."""

import subprocess
import time
from pathlib import Path

import pytest

from kdissect.spark.startup.class_data_sharing import (
    ArchiveUse,
    ClassArchive,
    keep_recording,
)
from kdissect.spark.startup.java import Java

CONTENTS = b"classes" * 1000


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "spark.jar"
    path.write_bytes(b"PK")
    return path


def open_archive(tmp_path: Path, jar: Path, version: str = "17.0.1", kind: str = "rdd") -> ClassArchive:
    return ClassArchive(tmp_path / "cache", Java(tmp_path / "java", version), [jar], ["-Xmx1g"], kind)


def record(archive: ClassArchive) -> None:
    """Do what the JVM does at its end, and what is done then."""
    target = recording(archive)
    target.write_bytes(CONTENTS)
    assert keep_recording(target, archive.path)
    archive.release()


def recording(archive: ClassArchive) -> Path:
    return Path(
        next(option for option in archive.options if "ArchiveClassesAtExit" in option).partition("=")[2]
    )


def test_recorded_then_mapped(tmp_path: Path, jar: Path) -> None:
    first = open_archive(tmp_path, jar)
    assert first.use is ArchiveUse.RECORD
    record(first)
    second = open_archive(tmp_path, jar)
    assert second.use is ArchiveUse.MAP
    assert f"-XX:SharedArchiveFile={second.path}" in second.options
    assert second.path.read_bytes() == CONTENTS


def test_nobody_waits_for_what_the_jvm_leaves_at_its_end(tmp_path: Path, jar: Path) -> None:
    first = open_archive(tmp_path, jar)
    jvm = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    first.keep_in_background(jvm.pid)
    first.release()
    assert open_archive(tmp_path, jar).use is ArchiveUse.NOTHING
    recording(first).write_bytes(CONTENTS)
    jvm.communicate()
    while (second := open_archive(tmp_path, jar)).use is ArchiveUse.NOTHING:
        time.sleep(0.05)
    assert second.use is ArchiveUse.MAP
    assert second.path.read_bytes() == CONTENTS
    assert not recording(first).exists()


def test_a_run_of_another_kind_records_its_own_classes(tmp_path: Path, jar: Path) -> None:
    record(open_archive(tmp_path, jar))
    other = open_archive(tmp_path, jar, kind="sql")
    assert other.use is ArchiveUse.RECORD
    record(other)
    assert open_archive(tmp_path, jar).use is open_archive(tmp_path, jar, kind="sql").use is ArchiveUse.MAP


def test_one_run_at_a_time_records(tmp_path: Path, jar: Path) -> None:
    first = open_archive(tmp_path, jar)
    second = open_archive(tmp_path, jar)
    assert (first.use, second.use) == (ArchiveUse.RECORD, ArchiveUse.NOTHING)
    assert second.options == ()
    first.release()
    assert open_archive(tmp_path, jar).use is ArchiveUse.RECORD


@pytest.mark.parametrize("damage", [b"", CONTENTS[:-1], CONTENTS[:-1] + b"?", b"?" + CONTENTS[1:]])
def test_a_damaged_archive_is_recorded_anew(tmp_path: Path, jar: Path, damage: bytes) -> None:
    first = open_archive(tmp_path, jar)
    record(first)
    first.path.write_bytes(damage)
    again = open_archive(tmp_path, jar)
    assert again.use is ArchiveUse.RECORD
    record(again)
    assert open_archive(tmp_path, jar).use is ArchiveUse.MAP


@pytest.mark.parametrize("seal", ["", "[]", "{"])
def test_a_damaged_seal_is_not_believed(tmp_path: Path, jar: Path, seal: str) -> None:
    first = open_archive(tmp_path, jar)
    record(first)
    first.path.with_suffix(".seal").write_text(seal)
    assert open_archive(tmp_path, jar).use is ArchiveUse.RECORD


def test_another_java_or_other_jars_have_another_archive(tmp_path: Path, jar: Path) -> None:
    record(open_archive(tmp_path, jar))
    assert open_archive(tmp_path, jar, version="21.0.1").use is ArchiveUse.RECORD
    jar.write_bytes(b"PK, but longer")
    assert open_archive(tmp_path, jar).use is ArchiveUse.RECORD


def test_what_the_jvm_fails_over_is_discarded(tmp_path: Path, jar: Path) -> None:
    record(open_archive(tmp_path, jar))
    archive = open_archive(tmp_path, jar)
    archive.discard()
    assert archive.options == ()
    assert open_archive(tmp_path, jar).use is ArchiveUse.RECORD


def test_nothing_recorded_leaves_nothing(tmp_path: Path, jar: Path) -> None:
    archive = open_archive(tmp_path, jar)
    assert not keep_recording(recording(archive), archive.path)
    archive.release()
    assert open_archive(tmp_path, jar).use is ArchiveUse.RECORD


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, jar: Path) -> None:
    (tmp_path / "cache").write_text("a file where the directory should be")
    assert open_archive(tmp_path, jar).use is ArchiveUse.NOTHING
