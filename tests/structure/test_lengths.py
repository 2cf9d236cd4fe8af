"""Lines, functions and READMEs that are too long."""

from tests.structure.conftest import Make
from tests.structure.lengths import function_length, line_length, module_length, readme_length
from tests.structure.rules import check

ADDRESS = "https://example.org/" + "a" * 100


def test_long_lines_of_code_comments_and_docstrings(make: Make) -> None:
    fits = f'"""{"d" * 104}"""\n# {"c" * 108}\nx = "{"s" * 104}"\n'
    text = f'{fits}# {"c" * 109}\n"""{"d" * 105}"""\ny = 1\n'
    files = {"kdissect/a.py": text, "tests/test_a.py": "\n" + "#" * 111}
    assert [str(finding) for finding in line_length(make(files))] == [
        "kdissect/a.py:4: line-length: 111 characters, 110 are allowed",
        "kdissect/a.py:5: line-length: 111 characters, 110 are allowed",
        "tests/test_a.py:2: line-length: 111 characters, 110 are allowed",
    ]


def test_characters_are_counted_not_bytes(make: Make) -> None:
    assert not list(line_length(make({"kdissect/a.py": "# " + "─" * 108})))


def test_an_address_stands_alone(make: Make) -> None:
    files = {"kdissect/a.py": f'"""See\n\n{ADDRESS}\n"""\n# {ADDRESS}\n# see {ADDRESS}\n'}
    assert [finding.line for finding in line_length(make(files))] == [6]


def function(lines: int) -> str:
    return "@decorated\ndef f():\n" + "    x = 1\n" * (lines - 1)


def test_a_function_that_is_too_long(make: Make) -> None:
    files = {"kdissect/a.py": function(61), "kdissect/b.py": function(60)}
    assert [str(finding) for finding in function_length(make(files))] == [
        "kdissect/a.py:2: function-length: f has 61 lines, 60 are allowed"
    ]


def test_a_listed_function_may_be_long(make: Make) -> None:
    listed = '[[function-length]]\nname = "kdissect/a.py:f"\nreason = "Split, it is slower."\n'
    files = {"kdissect/a.py": function(61), "tests/structure/exceptions.toml": listed}
    assert not check(make(files), ["function-length"])


def test_a_module_that_is_too_long(make: Make) -> None:
    files = {
        "kdissect/a.py": "x = 1\n" * 401,
        "kdissect/b.py": "x = 1\n" * 400,
        "tests/c.py": "x = 1\n" * 401,
    }
    assert [str(finding) for finding in module_length(make(files))] == [
        "kdissect/a.py:401: module-length: 401 lines, 400 are allowed"
    ]


def test_a_readme_that_is_too_long(make: Make) -> None:
    assert not list(readme_length(make({"README.md": "x\n" * 120})))
    (finding,) = readme_length(make({"README.md": "x\n" * 121}))
    assert str(finding) == "README.md:121: readme-length: 121 lines, 120 are allowed"
