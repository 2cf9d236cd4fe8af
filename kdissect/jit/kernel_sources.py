"""The sources that compiled kernels depend on, in one number.

A digest of sources means to read all of the package, which takes 0.03 s of each start. So the digest is kept
in the cache, beside the state of the files that it was made of: their names, their sizes, and when they
changed last.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from kdissect.files import write_atomically

# As Numba names it: a path through `..` is the same place.
PACKAGE = Path(os.path.abspath(__file__)).parents[1]
COMPILER = "kdissect.jit."  # the package that compiles kernels, and has instructions for them
OTHER_PACKAGES = "numpy", "numba"  # whose versions count
KERNEL_SIGNS = (b"@jit", b"@row_type")
IMPORT = re.compile(rb"^[ \t]*from (kdissect[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
CONSTANT = re.compile(rb"\b[A-Z][A-Z0-9_]+\b")
ENUM = b"Enum)"  # its members are constants, whatever its name looks like

DIGITS = 16  # of a digest, in the name of a file


def known_digest(cache: Path) -> str:
    """Return the digest of what compiled kernels depend on. The directory `cache` keeps it for later runs."""
    files = [*_sources(str(PACKAGE)), *_other_sources()]
    state = _digest(f"{name} {size} {changed}" for name, size, changed in sorted(files))
    memo = cache / f"sources-{_digest([str(PACKAGE), *_surroundings()])}.json"
    with suppress(OSError, ValueError):
        known = json.loads(memo.read_bytes())
        if isinstance(known, dict) and known.get("state") == state:
            return str(known["digest"])
    digest = digest_of(package_sources(), _dependencies())
    with suppress(OSError):
        memo.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(memo, json.dumps({"state": state, "digest": digest}))
    return digest


def digest_of(sources: Mapping[str, bytes], dependencies: list[str]) -> str:
    """Return the digest of the modules of `sources` that matter to kernels, and of what they depend on."""
    digest = hashlib.sha256("".join(dependencies).encode())
    for name in sorted(compiled_modules(sources)):
        digest.update(name.encode())
        digest.update(sources[name])
    return digest.hexdigest()[:DIGITS]


def _dependencies() -> list[str]:
    from importlib.metadata import version  # late: it takes 0.01 s, for which Java would wait in each start

    return [*map(version, OTHER_PACKAGES), *_surroundings()]


def _surroundings() -> list[str]:
    from kdissect.limits import LIMITS_VARIABLE  # the import raises LimitsError if the variable is wrong

    return [sys.version, os.environ.get(LIMITS_VARIABLE, "")]


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:DIGITS]


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, size and time of change (ns) of each source in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                state = entry.stat()
                yield entry.path, state.st_size, state.st_ctime_ns


def _other_sources() -> Iterator[tuple[str, int, int]]:
    """Yield the same of a file of each other package, which another version of it replaces."""
    for name in OTHER_PACKAGES:
        found = find_spec(name)
        if found is not None and found.origin is not None:
            state = os.stat(found.origin)
            yield found.origin, state.st_size, state.st_ctime_ns


def package_sources() -> dict[str, bytes]:
    """Return the sources of the package by name of the module. `Path` would take three times as long."""
    sources = {}
    for folder, _, files in os.walk(PACKAGE):
        package = folder[len(str(PACKAGE.parent)) + 1 :].replace(os.sep, ".")
        for file in files:
            if file.endswith(".py"):
                with open(f"{folder}/{file}", "rb") as source:  # noqa: PTH123
                    sources[f"{package}.{file[:-3]}"] = source.read()
    return sources


def compiled_modules(sources: Mapping[str, bytes]) -> set[str]:
    """Return the modules with kernels, and those that their constants come from, by name of the module.

    The compiler writes the value of a constant into the kernel. It would stay there when the module that
    defines it has another one.
    """
    found = {
        name
        for name, text in sources.items()
        if name.startswith(COMPILER) or any(sign in text for sign in KERNEL_SIGNS)
    }
    unread = list(found)
    while unread:
        for imported in IMPORT.finditer(sources[unread.pop()]):
            name = imported[1].decode()
            if name in found or name not in sources:
                continue
            if CONSTANT.search(imported[2]) or ENUM in sources[name]:
                found.add(name)
                unread.append(name)
    return found
