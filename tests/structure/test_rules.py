"""All rules together, the lists of exceptions, and the command."""

from pathlib import Path

import pytest

from tests.structure.__main__ import main
from tests.structure.conftest import Make
from tests.structure.rules import RULES, check


def test_a_clean_checkout(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    project = make({})
    assert check(project) == []
    assert main(["--root", str(project.root)]) == 0
    assert capsys.readouterr() == ("", "no violations\n")


def test_an_exception_that_nothing_needs(make: Make) -> None:
    listed = '\n[[module-name]]\nname = "gone"\npaths = ["kdissect/gone.py"]\nreason = "It was there once."\n'
    (finding,) = check(make({"tests/structure/exceptions.toml": listed}))
    assert (
        str(finding)
        == "tests/structure/exceptions.toml:2: module-name: the exception 'gone' is not needed: remove it"
    )


def test_an_exception_without_a_reason(make: Make) -> None:
    listed = '[[module-test]]\nname = "kdissect/a.py"\nreason = "because"\n'
    files = {"kdissect/a.py": "def f(): ...\n", "tests/structure/exceptions.toml": listed}
    assert [finding.sentence for finding in check(make(files))] == [
        "the exception 'kdissect/a.py' has no reason"
    ]


def test_exceptions_of_a_rule_that_is_not_there(make: Make) -> None:
    listed = '[[modules]]\nname = "a"\nreason = "It was there once."\n'
    assert [finding.sentence for finding in check(make({"tests/structure/exceptions.toml": listed}))] == [
        "no rule is called 'modules'"
    ]


def test_the_command_prints_violations_and_fails(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(make({"kdissect/__init__.py": '"""Tell it."""\n' + "#" * 111}).root)
    assert main(["--root", root]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "kdissect/__init__.py:1: docstring-verb: a docstring begins with 'Tell'",
        "kdissect/__init__.py:2: line-length: 111 characters, 110 are allowed",
    ]


def test_only_some_rules(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(make({"kdissect/__init__.py": '"""Tell it."""\n' + "#" * 111}).root)
    assert main(["--root", root, "--rules", "line-length,link", "--count"]) == 1
    assert capsys.readouterr().out.split() == ["1", "line-length", "0", "link"]
    assert main(["--root", root, "--rules", "link"]) == 0


def test_a_rule_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--rules", "beauty"])
    assert ended.value.code == 2
    assert "no rule is called 'beauty'" in capsys.readouterr().err


def test_the_rules_have_their_tests() -> None:
    """Every rule is seen to fail by a test of the module that it is defined in."""
    tests = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert {f"test_{rule.__module__.rpartition('.')[2]}" for rule in RULES.values()} <= tests
