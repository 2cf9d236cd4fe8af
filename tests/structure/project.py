"""The files that are checked, read and parsed once, and the lists of exceptions beside this module.

An exception has a name, a reason and, for names that occur more than once, the places that are meant. A
list that has an entry more than it needs is a violation itself, so that it shrinks with the reasons for it.
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXCEPTIONS = Path("tests/structure/exceptions.toml")


@dataclass(frozen=True, order=True)
class Finding:
    """One violation. `path` is relative to the root, `line` counts from 1, `sentence` says what is wrong."""

    path: str
    line: int
    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.sentence}"


class Source:
    """A Python file: `path` relative to the root, its lines and its syntax tree."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path.relative_to(root)
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        """Return the parsed file. Raise SyntaxError for one that Python cannot read."""
        return ast.parse(self.text, str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return all nodes of the tree, outer ones first."""
        return list(ast.walk(self.tree))

    @property
    def module(self) -> str:
        """Return the dotted name; a package has the name of its folder."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def at(self, line: int, rule: str, sentence: str) -> Finding:
        """Return a finding in this file."""
        return Finding(self.path.as_posix(), line, rule, sentence)


@dataclass
class Entry:
    """One exception of a rule, and whether something needed it."""

    name: str
    reason: str
    paths: tuple[str, ...]
    line: int
    needed: bool = False


@dataclass
class Project:
    """A checkout. `exceptions` are the entries by rule."""

    root: Path = ROOT
    exceptions: dict[str, list[Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        listed = self.root / EXCEPTIONS
        if listed.exists():
            self.exceptions = read_exceptions(listed.read_text(encoding="utf-8"))

    @cached_property
    def product(self) -> list[Source]:
        """Return the modules of the package, by path."""
        return self._sources("kdissect")

    @cached_property
    def tests(self) -> list[Source]:
        """Return the Python files of the tests, by path."""
        return self._sources("tests")

    @cached_property
    def pyproject(self) -> dict[str, Any]:
        """Return pyproject.toml."""
        return tomllib.loads(self.pyproject_text)

    @cached_property
    def pyproject_text(self) -> str:
        """Return pyproject.toml as it is written."""
        return (self.root / "pyproject.toml").read_text(encoding="utf-8")

    def _sources(self, folder: str) -> list[Source]:
        return [Source(self.root, path) for path in sorted((self.root / folder).rglob("*.py"))]

    def listed(self, rule: str, name: str) -> Entry | None:
        """Return the exception of this name, or None. Remember that it was needed."""
        for entry in self.exceptions.get(rule, []):
            if entry.name == name:
                entry.needed = True
                return entry
        return None

    def allows(self, rule: str, name: str, paths: tuple[str, ...] = ()) -> bool:
        """Return whether the exception is listed for exactly these places. Remember that it was needed."""
        for entry in self.exceptions.get(rule, []):
            if entry.name == name and sorted(entry.paths) == sorted(paths):
                entry.needed = True
                return True
        return False

    def superfluous(self, rule: str) -> Iterator[Finding]:
        """Yield the entries of a rule that were not needed when it ran, or that have no reason."""
        for entry in self.exceptions.get(rule, []):
            if not entry.needed:
                yield _listed(entry, rule, f"the exception {entry.name!r} is not needed: remove it")
            elif len(entry.reason.split()) < 3:
                yield _listed(entry, rule, f"the exception {entry.name!r} has no reason")


def _listed(entry: Entry, rule: str, sentence: str) -> Finding:
    return Finding(EXCEPTIONS.as_posix(), entry.line, rule, sentence)


def read_exceptions(text: str) -> dict[str, list[Entry]]:
    """Return the entries by rule.

    Each is a table `[[rule]]` with `reason`, `name` and perhaps `paths`; `names` stands for several entries.
    """
    heads = [(line.strip(), number) for number, line in enumerate(text.splitlines(), 1)]
    lists: dict[str, list[Entry]] = {}
    for rule, tables in tomllib.loads(text).items():
        lines = [number for line, number in heads if line == f"[[{rule}]]"]
        lists[rule] = [
            Entry(name, table.get("reason", ""), tuple(table.get("paths", ())), line)
            for table, line in zip(tables, lines, strict=True)
            for name in table.get("names") or [table["name"]]
        ]
    return lists
