"""Docstrings that begin with a word of our own."""

import pytest

from tests.structure.conftest import Make
from tests.structure.docstrings import QUESTIONS, VERBS, docstring_verb


@pytest.mark.parametrize("verb", VERBS)
def test_a_docstring_that_begins_with(make: Make, verb: str) -> None:
    text = f'class A:\n    """{verb}s a name."""\n\n    def f(self):\n        """{verb} the name."""\n'
    assert [str(finding) for finding in docstring_verb(make({"kdissect/a.py": text}))] == [
        f"kdissect/a.py:2: docstring-verb: a docstring begins with '{verb}s'",
        f"kdissect/a.py:5: docstring-verb: a docstring begins with '{verb}'",
    ]


@pytest.mark.parametrize("word", QUESTIONS)
def test_a_docstring_that_begins_with_a_clause(make: Make, word: str) -> None:
    findings = docstring_verb(make({"kdissect/a.py": f'def f():\n    """{word} it is."""\n'}))
    assert [str(finding) for finding in findings] == [
        f"kdissect/a.py:2: docstring-verb: a docstring begins with {word!r}"
    ]


def test_docstrings_of_modules_attributes_and_tests(make: Make) -> None:
    text = '"""Tell it."""\n\nA = 1\n"""Take: what A is."""\n'
    findings = docstring_verb(make({"kdissect/a.py": text, "tests/test_a.py": text}))
    assert [(finding.path, finding.line) for finding in findings] == [
        ("kdissect/a.py", 1), ("kdissect/a.py", 4), ("tests/test_a.py", 1), ("tests/test_a.py", 4),
    ]  # fmt: skip


def test_other_words_and_other_texts(make: Make) -> None:
    text = '"""Return it."""\n\nA = "Give"\n\n\ndef f():\n    """Takeover is no verb."""\n    return "Say"\n'
    assert not list(docstring_verb(make({"kdissect/a.py": text})))
