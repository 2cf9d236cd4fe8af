"""Docstrings say what is returned, raised or done, in the words that readers of Python expect.

A docstring is the first statement of a module, class or function, or a string behind an assignment.
"""

import ast
from collections.abc import Iterator

from tests.structure.project import Finding, Project

VERBS = ("Give", "Say", "Tell", "Let", "Hear", "Take")
QUESTIONS = ("What", "Where", "Whether", "Of")
"""A docstring names the thing or the act first; these words put a clause in front of it."""

WORDS = frozenset(VERBS) | {f"{verb}s" for verb in VERBS} | frozenset(QUESTIONS)


def docstring_verb(project: Project) -> Iterator[Finding]:
    """Yield the docstrings that begin with one of `VERBS`, in either person, or with one of `QUESTIONS`."""
    for source in project.product + project.tests:
        for node in source.nodes:
            for text in _docstrings(node):
                word = str(text.value).lstrip().partition(" ")[0].rstrip(".,:;\n")
                if word in WORDS:
                    yield source.at(text.lineno, "docstring-verb", f"a docstring begins with {word!r}")


def _docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    body = getattr(node, "body", None)
    if not isinstance(body, list):
        return
    owner = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    for number, statement in enumerate(body):
        behind = number and isinstance(body[number - 1], ast.Assign | ast.AnnAssign)
        if not (behind or (owner and number == 0)) or not isinstance(statement, ast.Expr):
            continue
        if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
            yield statement.value
