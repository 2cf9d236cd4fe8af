"""Which Java is taken, and what is said when none will do."""

import os
from pathlib import Path

import pytest

from kdissect.errors import UserError
from kdissect.spark.startup.java import (
    Java,
    JavaMissingError,
    NamelessUserError,
    check_temporary_directory,
    check_user_name,
    find_java,
    printed_version,
    release_file_version,
)


def make_java(home: Path, version: str, *, release: bool = True) -> Path:
    """Lay out a Java home whose program tells its version the way Java does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.mark.parametrize(
    ("version", "feature"),
    [("17.0.15", 17), ("1.8.0_412", 8), ("21", 21), ("25-ea", 25), ("", 0), ("unknown", 0)],
)
def test_feature_number(version: str, feature: int) -> None:
    assert Java(Path("java"), version).feature == feature


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    at_home = make_java(tmp_path / "home", "21.0.1")
    on_path = make_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert find_java(environment, ()).program == at_home


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    make_java(tmp_path / "old", "11.0.2")
    newer = make_java(tmp_path / "new", "17.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(newer.parent)}, ()).program == newer


def test_installed_java_is_found_without_path(tmp_path: Path) -> None:
    make_java(tmp_path / "jvm" / "java-11", "11.0.2")
    newer = make_java(tmp_path / "jvm" / "java-17", "17.0.1")
    assert find_java({}, (f"{tmp_path}/jvm/*",)).program == newer


def test_no_java_is_one_sentence_that_says_what_to_install() -> None:
    with pytest.raises(JavaMissingError, match=r"^Java was not found.*install Java 17 or newer.*JAVA_HOME$"):
        find_java({"PATH": ""}, ())


def test_a_user_without_a_name_is_one_sentence() -> None:
    check_user_name(os.geteuid())
    with pytest.raises(NamelessUserError, match=r"^user id 4242424 has no name .*/etc/passwd:ro\)$"):
        check_user_name(4_242_424)


def test_only_an_old_java_is_named(tmp_path: Path) -> None:
    program = make_java(tmp_path, "1.8.0_412")
    with pytest.raises(JavaMissingError, match=r"^Java 1\.8\.0_412 \(.*\) is too old") as raised:
        find_java({"PATH": str(program.parent)}, ())
    assert "\n" not in str(raised.value)


def test_version_without_release_file_is_asked_for(tmp_path: Path) -> None:
    program = make_java(tmp_path, "17.0.9", release=False)
    assert release_file_version(program) == ""
    assert printed_version(program) == "17.0.9"
    assert find_java({"PATH": str(program.parent)}, ()).version == "17.0.9"


def test_a_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert printed_version(tmp_path / "nothing") == ""


def test_a_directory_that_spark_would_take_for_another_is_refused() -> None:
    check_temporary_directory("/tmp/é $x")
    with pytest.raises(UserError, match="would divide /a,b at the comma"):
        check_temporary_directory("/a,b")
    with pytest.raises(UserError, match=r"cannot open /caf\\xe9"):
        check_temporary_directory("/caf\udce9")
