"""Module and class names that occur more than once."""

from tests.structure.conftest import Make
from tests.structure.names import class_names, module_names
from tests.structure.rules import check

LISTED = """
[[module-name]]
name = "offsets"
paths = ["kdissect/a/offsets.py", "kdissect/b/offsets.py"]
reason = "The same role in sibling packages."
"""


def test_two_modules_of_one_name(make: Make) -> None:
    findings = list(module_names(make({"kdissect/a/steps.py": "", "kdissect/b/steps.py": ""})))
    assert [str(finding) for finding in findings] == [
        "kdissect/a/steps.py:1: module-name: the module name 'steps' is also that of kdissect/b/steps.py",
        "kdissect/b/steps.py:1: module-name: the module name 'steps' is also that of kdissect/a/steps.py",
    ]


def test_entry_points_repeat(make: Make) -> None:
    project = make({"kdissect/a/__init__.py": "", "kdissect/a/__main__.py": "", "kdissect/__main__.py": ""})
    assert not list(module_names(project))


def test_listed_modules_may_share_a_name(make: Make) -> None:
    files = {
        "kdissect/a/offsets.py": "",
        "kdissect/b/offsets.py": "",
        "tests/structure/exceptions.toml": LISTED,
    }
    assert not check(make(files), ["module-name"])


def test_a_place_more_than_listed(make: Make) -> None:
    files = {f"kdissect/{package}/offsets.py": "" for package in "abc"}
    findings = check(make({**files, "tests/structure/exceptions.toml": LISTED}), ["module-name"])
    assert [finding.path for finding in findings if finding.path.startswith("kdissect/")] == sorted(files)


def test_two_public_classes_of_one_name(make: Make) -> None:
    files = {"kdissect/a.py": "\nclass Place: ...\n", "kdissect/b.py": "class Place: ...\nclass Other: ...\n"}
    findings = list(class_names(make(files)))
    assert [(finding.path, finding.line) for finding in findings] == [
        ("kdissect/a.py", 2),
        ("kdissect/b.py", 1),
    ]
    assert findings[0].sentence == "the class name 'Place' is also that of kdissect/b.py"


def test_private_and_inner_classes_may_share_a_name(make: Make) -> None:
    text = "class _Own:\n    class Inner: ...\n"
    assert not list(class_names(make({"kdissect/a.py": text, "kdissect/b.py": text})))
