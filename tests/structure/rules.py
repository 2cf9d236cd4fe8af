"""All rules by name, in the order in which they run."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from tests.structure.dependencies import dependencies
from tests.structure.docstrings import docstring_verb
from tests.structure.documents import generated, links, table_rows
from tests.structure.imports import import_circles
from tests.structure.lengths import function_length, line_length, module_length, readme_length
from tests.structure.mirror import module_tests
from tests.structure.names import class_names, module_names
from tests.structure.project import EXCEPTIONS, Finding, Project
from tests.structure.protocol_numbers import protocol_numbers
from tests.structure.sentences import sentence_start

RULES: Mapping[str, Callable[[Project], Iterator[Finding]]] = {
    "module-name": module_names,
    "class-name": class_names,
    "import-circle": import_circles,
    "line-length": line_length,
    "function-length": function_length,
    "docstring-verb": docstring_verb,
    "sentence-start": sentence_start,
    "protocol-number": protocol_numbers,
    "module-test": module_tests,
    "dependency": dependencies,
    "link": links,
    "table-row": table_rows,
    "module-length": module_length,
    "readme-length": readme_length,
    "generated": generated,
}


def check(project: Project, names: Iterable[str] = tuple(RULES)) -> list[Finding]:
    """Return what violates the named rules, by place, with the exceptions that they do not need."""
    findings: list[Finding] = []
    for name in names:
        findings += RULES[name](project)
        findings += project.superfluous(name)
    for name, entries in project.exceptions.items():
        if name not in RULES:
            findings += [
                Finding(EXCEPTIONS.as_posix(), entry.line, "exceptions", f"no rule is called {name!r}")
                for entry in entries
            ]
    return sorted(findings)
