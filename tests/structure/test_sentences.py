"""Sentences that begin with a clause instead of their subject."""

import pytest

from tests.structure.conftest import Make
from tests.structure.sentences import WORDS, sentence_start


@pytest.mark.parametrize("word", WORDS)
def test_a_sentence_that_begins_with(make: Make, word: str) -> None:
    code = f'"""Return it.\n\n{word} they are is\nleft. A list. {word} else.\n"""\n\nA = 1  # {word} it is\n'
    prose = f"# Title\n\nA file. {word} it has is read.\n- {word} it is.\n"
    findings = sentence_start(make({"kdissect/a.py": code, "docs/a.md": prose}))
    assert sorted(str(finding) for finding in findings) == [
        f"docs/a.md:3: sentence-start: a sentence begins with {word!r}",
        f"docs/a.md:4: sentence-start: a sentence begins with {word!r}",
        f"kdissect/a.py:3: sentence-start: a sentence begins with {word!r}",
        f"kdissect/a.py:4: sentence-start: a sentence begins with {word!r}",
        f"kdissect/a.py:7: sentence-start: a sentence begins with {word!r}",
    ]


@pytest.mark.parametrize(
    "text",
    ["What is it? It is this.", "It is what it is.", "It has two. Of these, one counts.", "Offsets count."],
)
def test_questions_and_other_sentences(make: Make, text: str) -> None:
    code = f'"""{text}"""\n\nA = "# Where"  # {text}\n'
    code_block = f"```\nA. {WORDS[0]} it is.\n```"
    prose = f"## Where it goes\n\n{text}\n\n{code_block}\n\n| a | b |\n|---|---|\n| x | {text} |\n"
    assert not list(sentence_start(make({"kdissect/a.py": code, "docs/a.md": prose})))
