"""Every module has its test where one looks for it: `kdissect/a/b.py` has `tests/a/test_b.py`.

`__init__` and `__main__` need none, nor does a module that only hands on names of others. Tests of several
modules together have names of their own, and stand beside these. A module that is tested only through
others is listed with the tests that do it (`paths`), which must be there.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.structure.names import ENTRY_POINTS
from tests.structure.project import Finding, Project, Source

RULE = "module-test"


def module_tests(project: Project) -> Iterator[Finding]:
    """Yield the modules without their test that are not listed, and listed tests that are gone."""
    there = {source.path for source in project.tests}
    for source in project.product:
        if source.path.stem in ENTRY_POINTS or _only_hands_on(source) or test_of(source.path) in there:
            continue
        entry = project.listed(RULE, source.path.as_posix())
        if entry is None:
            yield source.at(1, RULE, f"there is no {test_of(source.path).as_posix()}")
        for path in entry.paths if entry else ():
            if Path(path) not in there:
                yield source.at(1, RULE, f"it is listed as tested by {path}, which is not there")


def test_of(module: Path) -> Path:
    """Return where the test of a module is, relative to the root."""
    return Path("tests", *module.parts[1:-1], f"test_{module.name}")


def _only_hands_on(source: Source) -> bool:
    return all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        for node in source.tree.body
    )
