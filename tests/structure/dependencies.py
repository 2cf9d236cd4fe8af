"""Dependencies of pyproject.toml are imported, and imports are named there.

The package may import its dependencies and those of its extras; tests may import those of `test` and `dev`
too. Tools that are run and plugins that are found by themselves are listed, with the reason. So are imports
of what another package brings.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator

from tests.structure.project import Finding, Project, Source

RULE = "dependency"
FOR_TESTS = ("test", "dev")
MODULES = {
    "confluent-kafka": ("confluent_kafka",),
    "kafka-python": ("kafka",),
    "numba": ("numba", "llvmlite"),
    "pyspark": ("pyspark", "py4j"),
    "pyspark[connect]": ("pyspark", "grpc"),
    "python-snappy": ("snappy",),
    "pytest-xdist": ("xdist",),
    "protobuf": ("google",),
    "opentelemetry-sdk": ("opentelemetry",),
    "opentelemetry-exporter-otlp-proto-http": ("opentelemetry",),
}
"""The modules of distributions that are imported under another name, or together with a second one."""


def dependencies(project: Project) -> Iterator[Finding]:
    """Yield the distributions that nothing imports, and the imports of what no distribution is named for."""
    metadata = project.pyproject["project"]
    extras = metadata.get("optional-dependencies", {})
    run = [name for extra, names in extras.items() if extra not in FOR_TESTS for name in names]
    run += metadata.get("dependencies", [])
    test = [name for extra, names in extras.items() if extra in FOR_TESTS for name in names]
    own = {"kdissect", "tests"} | {part for source in project.tests for part in _names_of(source)}
    in_product = list(_imports(project.product))
    in_tests = list(_imports(project.tests))
    yield from _unused(project, run, in_product, "kdissect")
    yield from _unused(project, test, in_tests, "tests")
    yield from _undeclared(project, run, in_product, {"kdissect"})
    yield from _undeclared(project, run + test, in_tests, own)


def distribution(requirement: str) -> str:
    """Return the name of a requirement in lower case, with its extras: `pyspark[connect]`."""
    match = re.match(r"[A-Za-z0-9._-]+(\[[^\]]*\])?", requirement)
    assert match, requirement
    return match[0].lower().replace("_", "-")


def modules_of(requirement: str) -> tuple[str, ...]:
    """Return the top-level modules that a requirement is imported as."""
    name = distribution(requirement)
    bare = name.partition("[")[0]
    return MODULES.get(name) or MODULES.get(bare) or (bare.replace("-", "_"),)


def _names_of(source: Source) -> set[str]:
    """Return the names under which a file of the tests may be imported: its own and those of its folders."""
    return {source.path.stem, *source.path.parts[1:-1]}


def _imports(sources: Iterable[Source]) -> Iterator[tuple[Source, int, str]]:
    """Yield the top-level modules that files import, `importorskip("moto.server")` included."""
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.Import):
                yield from ((source, node.lineno, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield source, node.lineno, node.module.partition(".")[0]
            elif isinstance(node, ast.Call) and _loads(node.func):
                for name in node.args[:1]:
                    if isinstance(name, ast.Constant) and isinstance(name.value, str):
                        yield source, node.lineno, name.value.partition(".")[0]


def _loads(function: ast.expr) -> bool:
    return ast.unparse(function).rpartition(".")[2] in ("importorskip", "import_module")


def _unused(
    project: Project, named: list[str], imported: list[tuple[Source, int, str]], folder: str
) -> Iterator[Finding]:
    names = {name for _, _, name in imported}
    for requirement in named:
        name = distribution(requirement)
        if name.startswith("kdissect[") or names & set(modules_of(requirement)) or project.allows(RULE, name):
            continue
        line = project.pyproject_text.partition(f'"{requirement}"')[0].count("\n") + 1
        yield Finding("pyproject.toml", line, RULE, f"nothing in {folder}/ imports {name}")


def _undeclared(
    project: Project, named: list[str], imported: list[tuple[Source, int, str]], own: set[str]
) -> Iterator[Finding]:
    known = (
        {module for requirement in named for module in modules_of(requirement)}
        | own
        | sys.stdlib_module_names
    )
    for source, line, name in imported:
        if name not in known and not project.allows(RULE, name):
            yield source.at(line, RULE, f"{name} is imported, and pyproject.toml does not name it")
