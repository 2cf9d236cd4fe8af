"""Lines of at most 110 characters, functions of 60 lines, modules of 400, a README of 120 lines.

The formatter leaves comments and docstrings alone, and the linter leaves whole what it cannot break; this
does neither.
"""

import ast
import re
from collections.abc import Iterator

from tests.structure.project import Finding, Project

LINE = 110
FUNCTION = 60
MODULE = 400
README = 120

ADDRESS = re.compile(r"\s*(#:? )?<?https?://\S+")


def line_length(project: Project) -> Iterator[Finding]:
    """Yield the lines of Python files that are too long; an address that stands alone in its line may be."""
    for source in project.product + project.tests:
        for number, line in enumerate(source.lines, 1):
            if len(line) > LINE and not ADDRESS.fullmatch(line):
                yield source.at(number, "line-length", f"{len(line)} characters, {LINE} are allowed")


def function_length(project: Project) -> Iterator[Finding]:
    """Yield the functions with too many lines from `def` to their end. Exceptions are `path:name`."""
    for source in project.product + project.tests:
        for node in source.nodes:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            name = f"{source.path.as_posix()}:{node.name}"
            if lines > FUNCTION and not project.allows("function-length", name):
                sentence = f"{node.name} has {lines} lines, {FUNCTION} are allowed"
                yield source.at(node.lineno, "function-length", sentence)


def module_length(project: Project) -> Iterator[Finding]:
    """Yield the modules of the package that have too many lines."""
    for source in project.product:
        if len(source.lines) > MODULE:
            sentence = f"{len(source.lines)} lines, {MODULE} are allowed"
            yield source.at(MODULE + 1, "module-length", sentence)


def readme_length(project: Project) -> Iterator[Finding]:
    """Yield the README if it is too long."""
    path = project.root / "README.md"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if len(lines) > README:
        yield Finding("README.md", README + 1, "readme-length", f"{len(lines)} lines, {README} are allowed")
