"""No module needs itself: the imports among the modules of the package have no circle.

An import inside a function counts too: it hides a circle from Python, but not from whoever reads the two
modules. Imports for type checkers alone (`if TYPE_CHECKING:`) and imports by a computed name do not count.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.structure.project import Finding, Project, Source


@dataclass(frozen=True)
class Import:
    """That a module imports another one, in which line, and whether only a function of it does."""

    target: str
    line: int
    late: bool


def import_circles(project: Project) -> Iterator[Finding]:
    """Yield one finding for each set of modules that import each other, at its first import."""
    sources = {source.module: source for source in project.product}
    imports = {name: list(imports_of(source, frozenset(sources))) for name, source in sources.items()}
    plain = {name: {found.target for found in each if not found.late} for name, each in imports.items()}
    every = {name: {found.target for found in each} for name, each in imports.items()}
    at_once = {frozenset(circle) for circle in circles(plain)}
    for circle in circles(every):
        names = sorted(circle)
        within = [found for found in imports[names[0]] if found.target in circle]
        hidden = "" if any(part <= circle for part in at_once) else " (by way of an import in a function)"
        sentence = f"{len(names)} modules import each other{hidden}: {_way(every, circle)}"
        yield sources[names[0]].at(within[0].line, "import-circle", sentence)


def imports_of(source: Source, modules: frozenset[str]) -> Iterator[Import]:
    """Yield what a module imports of `modules`, without itself."""
    for node, late in _statements(source.tree.body, late=False):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in inner]
        for name in dict.fromkeys(names):
            if name in modules and name != source.module:
                yield Import(name, node.lineno, late)


def _statements(body: list[ast.stmt], late: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the statements of a body and of all within it, and whether they stand in a function."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _statements(node.orelse, late)
            continue
        yield node, late
        inside = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            for inner in getattr(node, name, []):
                yield from _statements([inner] if isinstance(inner, ast.stmt) else inner.body, inside)


def circles(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yield the strongly connected components of more than one node (Tarjan 1972, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for start in sorted(graph):
        if start in index:
            continue
        work = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = set(stack[stack.index(node) :])
                    del stack[stack.index(node) :]
                    if len(part) > 1:
                        yield part
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(sorted(graph[following]))))
            elif following in stack:
                low[node] = min(low[node], index[following])


def _way(graph: dict[str, set[str]], circle: set[str]) -> str:
    """Return the shortest way from the first module of a circle back to itself."""
    start = min(circle)
    ways = [[start]]
    seen: set[str] = set()
    for way in ways:
        for following in sorted(graph[way[-1]] & circle):
            if following == start:
                return " → ".join([*way, start])
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    raise ValueError(f"no way from {start} to itself")
