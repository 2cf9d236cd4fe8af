"""Sentences name their subject first: none begins with a clause such as "What is left …" or "Of each file …".

Docstrings, other texts of the code, comments and the prose of the documents are read. Questions may begin as
they do, and "Of these, …" stays, since its noun is in the sentence before.
"""

import ast
import re
from collections.abc import Iterator

from tests.structure.documents import DOCUMENTS, prose
from tests.structure.project import Finding, Project, Source

WORDS = ("What", "Whatever", "Whose", "Whoever", "Where", "Wherever", "Whether", "Of")

BEGIN = r"(?:(?<=[.;!?])\s+|\n\s*\n\s*|\A\s*)(?:(?:[-*]|\d+\.)\s+)?"
FIRST = rf"({'|'.join(WORDS)})\s+(?!these\b)"
SENTENCE = re.compile(rf"{BEGIN}{FIRST}[^.?!]*?[.!?](?=\s|\Z)")
COMMENT = re.compile(rf"(?:^\s*|  )#\s+{FIRST}[^?]*$")


def sentence_start(project: Project) -> Iterator[Finding]:
    """Yield the sentences that begin with one of `WORDS` and are not questions."""
    for source in project.product + project.tests:
        yield from _in_code(source)
    for path in sorted({path for pattern in DOCUMENTS for path in project.root.glob(pattern)}):
        text = "\n".join(prose(path.read_text(encoding="utf-8")))
        for line, word in _starts(text):
            yield Finding(path.relative_to(project.root).as_posix(), line, "sentence-start", _problem(word))


def _in_code(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for line, word in _starts(node.value):
                yield source.at(node.lineno + line - 1, "sentence-start", _problem(word))
    for number, line in enumerate(source.lines, 1):
        if match := COMMENT.search(line):
            yield source.at(number, "sentence-start", _problem(match[1]))


def _starts(text: str) -> Iterator[tuple[int, str]]:
    for match in SENTENCE.finditer(text):
        if not match[0].endswith("?"):
            yield text.count("\n", 0, match.start(1)) + 1, match[1]


def _problem(word: str) -> str:
    return f"a sentence begins with {word!r}"
