"""The sources that compiled kernels depend on, and how a start knows them without reading the package."""

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.jit import kernel_sources


def test_sources_are_read_once_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, package = tmp_path / "cache", tmp_path / "package"
    package.mkdir()
    source = package / "loops.py"
    source.write_text("@jit\ndef f(): return 1")
    read = []

    def sources() -> dict[str, bytes]:
        read.append(1)
        return {"loops": source.read_bytes()}

    monkeypatch.setattr(kernel_sources, "PACKAGE", package)
    monkeypatch.setattr(kernel_sources, "package_sources", sources)
    monkeypatch.setattr(kernel_sources, "compiled_modules", set)
    first = kernel_sources.known_digest(cache)
    assert kernel_sources.known_digest(cache) == first
    assert len(read) == 1
    was = source.stat()
    source.write_text("@jit\ndef f(): return 2")
    os.utime(source, ns=(was.st_atime_ns, was.st_mtime_ns))  # as some tools do that copy files
    second = kernel_sources.known_digest(cache)
    assert second != first
    assert kernel_sources.known_digest(cache) == second
    assert len(read) == 2


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"state": 1}'])
def test_a_damaged_memory_is_not_believed(tmp_path: Path, damage: str) -> None:
    digest = kernel_sources.known_digest(tmp_path)
    (kept,) = tmp_path.glob("sources-*.json")
    assert json.loads(kept.read_text())["digest"] == digest
    kept.write_text(damage)
    assert kernel_sources.known_digest(tmp_path) == digest
    assert json.loads(kept.read_text())["digest"] == digest


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert kernel_sources.known_digest(tmp_path / "file") == kernel_sources.known_digest(tmp_path / "cache")


def names_in_kernels(text: bytes) -> Iterator[tuple[str, str]]:
    """Yield the imported names that the kernels of a module use, with the modules that they come from."""
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and "jit" in "".join(map(ast.dump, function.decorator_list)):
            for node in (one for line in function.body for one in ast.walk(line)):
                if isinstance(node, ast.Name) and node.id in imported:
                    yield node.id, imported[node.id]


def test_the_cache_depends_on_every_module_that_a_kernel_takes_something_from() -> None:
    sources = kernel_sources.package_sources()
    counted = kernel_sources.compiled_modules(sources)
    used = {
        origin for text in sources.values() if b"@jit" in text for _, origin in names_in_kernels(text)
    } & sources.keys()
    assert len(used) > 20
    assert used <= counted


def test_the_cache_depends_on_what_constants_are_made_of_and_on_nothing_else() -> None:
    """`ROW_VALUES`, which kernels hold, is the number of roles that `field_roles` keeps."""
    counted = kernel_sources.compiled_modules(kernel_sources.package_sources())
    assert "kdissect.protocol.schema.field_roles" in counted
    assert "kdissect.report.wording" not in counted
    made = {
        "kdissect.a": b"from kdissect.b import (\n    WIDTH,\n)\n@jit_flat\ndef f(): ...",
        "kdissect.b": b"from kdissect.c import Kind\nfrom kdissect.d import helper\nWIDTH = 3",
        "kdissect.c": b"class Kind(IntEnum):\n    ONE = 1",
        "kdissect.d": b"def helper(): ...",
    }
    assert kernel_sources.compiled_modules(made) == {"kdissect.a", "kdissect.b", "kdissect.c"}
