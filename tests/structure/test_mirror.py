"""Modules without their test."""

from tests.structure.conftest import Make
from tests.structure.mirror import module_tests
from tests.structure.rules import check

CODE = "def f():\n    return 1\n"


def test_a_module_without_its_test(make: Make) -> None:
    files = {"kdissect/report/html/page.py": CODE, "tests/report/test_page.py": "", "kdissect/files.py": CODE}
    assert [str(finding) for finding in module_tests(make(files))] == [
        "kdissect/files.py:1: module-test: there is no tests/test_files.py",
        "kdissect/report/html/page.py:1: module-test: there is no tests/report/html/test_page.py",
    ]


def test_modules_with_their_tests(make: Make) -> None:
    files = {
        "kdissect/report/html/page.py": CODE,
        "tests/report/html/test_page.py": "",
        "kdissect/report/__init__.py": CODE,
        "kdissect/__main__.py": CODE,
        "kdissect/names.py": '"""Names of others."""\n\nfrom kdissect.report import f\n\n__all__ = ["f"]\n',
    }
    assert not list(module_tests(make(files)))


def test_modules_that_are_tested_through_others(make: Make) -> None:
    listed = """[[module-test]]
names = ["kdissect/a.py", "kdissect/b.py"]
paths = ["tests/test_both.py"]
reason = "The two are one machine."
"""
    files = {"kdissect/a.py": CODE, "kdissect/b.py": CODE, "tests/structure/exceptions.toml": listed}
    assert [str(finding) for finding in check(make(files), ["module-test"])] == [
        f"kdissect/{name}.py:1: module-test: it is listed as tested by tests/test_both.py, which is not there"
        for name in "ab"
    ]
    assert not check(make({**files, "tests/test_both.py": ""}), ["module-test"])


def test_a_listed_module_needs_none(make: Make) -> None:
    listed = '[[module-test]]\nname = "kdissect/a.py"\nreason = "Nothing but constants is in it."\n'
    assert not check(
        make({"kdissect/a.py": CODE, "tests/structure/exceptions.toml": listed}), ["module-test"]
    )
