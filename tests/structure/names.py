"""One word, one meaning: a module name and a public class name occur once in the package.

Those that occur more than once in the same role are listed with the places that are meant, so that one more
place is seen.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.structure.project import Finding, Project, Source

ENTRY_POINTS = ("__init__", "__main__")

Places = dict[str, list[tuple[Source, int]]]


def module_names(project: Project) -> Iterator[Finding]:
    """Yield the modules that have the name of another one."""
    places: Places = defaultdict(list)
    for source in project.product:
        if source.path.stem not in ENTRY_POINTS:
            places[source.path.stem].append((source, 1))
    yield from _repeated(project, "module-name", "module", places)


def class_names(project: Project) -> Iterator[Finding]:
    """Yield the public classes, at the top level of their module, that have the name of another one."""
    places: Places = defaultdict(list)
    for source in project.product:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append((source, node.lineno))
    yield from _repeated(project, "class-name", "class", places)


def _repeated(project: Project, rule: str, kind: str, places: Places) -> Iterator[Finding]:
    for name, homes in places.items():
        paths = [source.path.as_posix() for source, _ in homes]
        if len(homes) == 1 or project.allows(rule, name, tuple(paths)):
            continue
        for number, (source, line) in enumerate(homes):
            others = ", ".join(paths[:number] + paths[number + 1 :])
            yield source.at(line, rule, f"the {kind} name {name!r} is also that of {others}")
