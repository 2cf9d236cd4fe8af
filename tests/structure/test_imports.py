"""Modules that import each other."""

import pytest

from tests.structure.conftest import Make
from tests.structure.imports import circles, import_circles


def test_two_modules_that_import_each_other(make: Make) -> None:
    files = {"kdissect/a.py": "\nfrom kdissect.b import x\n", "kdissect/b.py": "import kdissect.a\n"}
    assert [str(finding) for finding in import_circles(make(files))] == [
        "kdissect/a.py:2: import-circle: 2 modules import each other: kdissect.a → kdissect.b → kdissect.a"
    ]


def test_a_circle_through_a_package_and_back(make: Make) -> None:
    files = {
        "kdissect/a/__init__.py": "from kdissect.a import b\n",
        "kdissect/a/b.py": "from kdissect import c\n",
        "kdissect/c.py": "from kdissect.a import name\n",
    }
    (finding,) = import_circles(make(files))
    assert "kdissect.a → kdissect.a.b → kdissect.c → kdissect.a" in finding.sentence


def test_an_import_in_a_function_closes_a_circle(make: Make) -> None:
    late = "class A:\n    def f(self):\n        if self:\n            from kdissect import b\n"
    (finding,) = import_circles(make({"kdissect/a.py": late, "kdissect/b.py": "import kdissect.a\n"}))
    assert finding.line == 4
    assert "(by way of an import in a function)" in finding.sentence


@pytest.mark.parametrize(
    "text",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import kdissect.b\n",
        "import kdissect.a\n",
        "import kdissect\n",
    ],
    ids=["for type checkers", "itself", "the package above"],
)
def test_no_circle(make: Make, text: str) -> None:
    assert not list(import_circles(make({"kdissect/a.py": text, "kdissect/b.py": "import kdissect.a\n"})))


def test_two_circles_are_two(make: Make) -> None:
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}}
    assert sorted(sorted(circle) for circle in circles(graph)) == [["a", "b"], ["c", "d", "e"]]
