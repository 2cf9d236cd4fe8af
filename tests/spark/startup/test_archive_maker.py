"""The maker of class archives: from the list of a JVM to files that are sealed, or to none."""

import os
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.arguments import parse
from kdissect.spark.spark_settings import RunKind
from kdissect.spark.startup import archive_maker
from kdissect.spark.startup.archive_maker import COMMANDS, ClassRecording, listed_names, make
from kdissect.spark.startup.class_data_sharing import ArchiveFiles
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import spark_jars
from tests.helpers.fake_java import CONTENTS, fake_java
from tests.helpers.tiers import thorough_after

LIST = """# NOTE: Do not modify this file.
@lambda-proxy java/util/Comparator apply
java/lang/Object id: 0
scala/Option id: 1 super: 0
org/apache/spark/SSLOptions
"""


def ordered(folder: Path, java: Path, has_functions: bool = True) -> dict[str, Any]:
    return {
        "cache": str(folder),
        "name": "classes-x",
        "has_functions": has_functions,
        "kind": RunKind.RDD,
        "java": [str(java), "-Xmx1g"],
        "jars": [str(jar) for jar in spark_jars() if jar.name.startswith(("spark-core", "scala-library"))],
    }


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that lists a few classes."""
    monkeypatch.setattr(ClassRecording, "fill", lambda recording, _: recording.classes.write_text(LIST))


def test_names_of_classes_in_a_list() -> None:
    assert listed_names(LIST.splitlines()) == [
        "java/lang/Object",
        "scala/Option",
        "org/apache/spark/SSLOptions",
    ]


@pytest.mark.usefixtures("listed")
def test_generated_classes_are_stored_with_those_of_the_list(tmp_path: Path) -> None:
    java = fake_java(tmp_path)
    assert make(ordered(tmp_path, java))
    files = ArchiveFiles(tmp_path, "classes-x", has_functions=True)
    assert files.are_whole()
    assert files.archive.read_bytes() == CONTENTS
    (jar,) = files.own_jars
    made = {
        name.removesuffix(".class") for name in zipfile.ZipFile(jar).namelist() if name.endswith(".class")
    }
    stored = listed_names(Path(f"{java}.listed").read_text().splitlines())
    assert "org/apache/spark/SSLOptions" in made
    assert made - {"org/apache/spark/SSLOptions", "scala/Option"} == {*stored} - {
        *listed_names(LIST.splitlines())
    }
    told = Path(f"{java}.told").read_text()
    assert told.startswith("-Xmx1g -Xshare:dump ")
    assert f"-cp {jar}{os.pathsep}" in told
    assert {path.suffix for path in tmp_path.glob("classes-*")} == {".jsa", ".jar", ".seal"}


@pytest.mark.usefixtures("listed")
def test_without_functions_only_the_list_is_stored(tmp_path: Path) -> None:
    java = fake_java(tmp_path)
    assert make(ordered(tmp_path, java, has_functions=False))
    assert Path(f"{java}.listed").read_text() == LIST
    assert not list(tmp_path.glob("*.jar"))


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize("ending", ["exit 1", "true", "kill -9 $$", "sleep 60"])
def test_a_java_that_stores_nothing_leaves_nothing(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_maker, "PATIENCE_SECONDS", 5 if ending != "sleep 60" else 0.5)
    assert not make(ordered(tmp_path, fake_java(tmp_path, ending)))
    files = ArchiveFiles(tmp_path, "classes-x", has_functions=True)
    assert files.have_failed()
    assert {path.suffix for path in tmp_path.glob("classes-*")} == {".failed"}


@pytest.mark.parametrize("failure", [subprocess.CalledProcessError(70, "kdissect"), OSError("no room")])
def test_a_run_that_fails_leaves_nothing(
    tmp_path: Path, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_recording: ClassRecording, _kind: str) -> None:
        raise failure

    monkeypatch.setattr(ClassRecording, "fill", fail)
    assert not make(ordered(tmp_path, fake_java(tmp_path)))
    assert {path.suffix for path in tmp_path.glob("classes-*")} == {".failed"}


def test_every_kind_of_run_has_a_command_that_exists() -> None:
    assert set(COMMANDS) == set(RunKind)
    for command in COMMANDS.values():
        assert parse([*command, "folder"]).command == command[0]


def test_options_of_the_user_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Mapping[str, str]] = []
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Dmine=1")
    monkeypatch.setenv("KDISSECT_STARTUP", "-prefork")
    monkeypatch.setattr(subprocess, "run", lambda _command, env, **_how: seen.append(env))
    ClassRecording(tmp_path / "a folder").fill(RunKind.RDD)
    (environment,) = seen
    assert environment["JDK_JAVA_OPTIONS"].startswith(
        f'-Dmine=1 "-XX:DumpLoadedClassList={tmp_path}/a folder/'
    )
    assert environment["TMPDIR"].startswith(str(tmp_path / "a folder"))
    assert environment["KDISSECT_STARTUP"] == "-prefork,-class_data_sharing,-local_scan,-quick_exit"


@pytest.mark.spark
@pytest.mark.parametrize("kind", thorough_after(1, RunKind))
def test_a_run_lists_its_classes_to_the_end(tmp_path: Path, kind: RunKind) -> None:
    recording = ClassRecording(tmp_path / "recording")
    recording.fill(kind)
    names = set(listed_names(recording.classes.read_text().splitlines()))
    assert "org/apache/spark/api/python/PythonRunner" in names
    assert "org/apache/spark/scheduler/StopCoordinator$" in names  # the end of a context
    assert ("org/apache/spark/sql/SparkSession" in names) == (kind is not RunKind.RDD)
    if find_java().feature <= 20:
        assert len(list(recording.functions.rglob("*.class"))) > 1000
