"""Functions that a JVM linked, as Java wrote them down."""

import subprocess
from pathlib import Path

import pytest

from kdissect.spark.startup.class_file import Member, Tag
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.linked_functions import OPTION, LinkedFunctions

KNOWN = Member(Tag.METHOD, "java/lang/Object", "<init>", "()V")
OTHER = Member(Tag.METHOD, "scala/Nothing", "done", "()V")


def test_all_functions_are_needed_if_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "damaged.class").write_bytes(b"\xca\xfe\xba\xbe")
    for functions in (LinkedFunctions(), LinkedFunctions(tmp_path), LinkedFunctions(tmp_path / "absent")):
        assert OTHER in functions


def test_those_that_java_wrote_are_needed_and_no_others(tmp_path: Path) -> None:
    java = find_java()
    if java.feature > 20:
        pytest.skip("later versions of Java ignore the option")
    listing = [str(java.program), f"{OPTION}={tmp_path}", "--list-modules"]
    subprocess.run(listing, check=True, capture_output=True, timeout=60)
    assert list(tmp_path.rglob("*.class"))
    linked = LinkedFunctions(tmp_path)
    assert KNOWN in linked
    assert KNOWN._replace(tag=Tag.INTERFACE_METHOD) in linked
    assert OTHER not in linked
    assert "text" not in linked
