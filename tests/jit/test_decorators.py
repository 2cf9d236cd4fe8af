"""Promises of the compiler switch about the package's own sources."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kdissect
from tests.helpers.command import environment
from tests.helpers.kernel_kinds import INNER, KINDS

PACKAGE = Path(kdissect.__file__).parent


def _decorator(function: ast.AST) -> str | None:
    names = [item.id for item in getattr(function, "decorator_list", ()) if isinstance(item, ast.Name)]
    return next((name for name in names if name in KINDS), None)


def _plain_uses(tree: ast.AST) -> set[str]:
    """Names that are read in uncompiled code: outside any kernel of this module."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef) and _decorator(node):
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return names


@pytest.mark.slow
def test_inner_kernels_are_called_by_kernels_only() -> None:
    modules = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    inner = {
        (path, node.name)
        for path, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and _decorator(node) in INNER
    }
    assert inner
    wrong = []
    for path, tree in modules.items():
        here = {name for owner, name in inner if owner == path}
        here |= {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
            if (PACKAGE.parent / (node.module.replace(".", "/") + ".py"), alias.name) in inner
        }
        wrong += [(path.name, name) for name in here & _plain_uses(tree)]
    assert wrong == []


def test_products_that_wrap_around_give_no_warning() -> None:
    """Compiled code does not warn of them, so uncompiled runs must not print lines of warnings either."""
    hashed = "import numpy as np; from kdissect.tables.partition_keys import hash_bytes as h; "
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", hashed + "print(h(np.arange(99, dtype=np.uint8), 0, 90, 1))"],
        env=environment(KDISSECT_JIT="0"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) > 0
    assert "overflow" not in done.stderr
