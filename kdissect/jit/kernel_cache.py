"""The cache of compiled kernels, usable without loading the compiler.

Compiling all kernels takes most of a minute, once for an installation. The same loops uncompiled are faster
for a small capture. So the first runs on small captures do not compile; they start a process with low
priority that compiles all kernels afterwards (`spark.startup.compile_kernels`). The first run on a large
capture waits for such a process, so that no process that lives on holds the memory of the compiler.

The name of the directory is derived from everything that compiled code depends on: the sources of kernels
and of the modules whose constants they hold, the versions of Python, NumPy and Numba, and the limits. Numba's
own cache checks only the file of the outermost function, and knows it by its location. Here the location does
not count: a second
environment, an upgrade that touches no kernel, and an archive that a cluster unpacks in another directory
for each job find the kernels that are there. Losing the cache costs only time.
"""

import fcntl
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from kdissect.background_program import LOWEST_PRIORITY, USUAL_PRIORITY, start_program
from kdissect.cache_directory import cache_home, mark_used, remove_old
from kdissect.jit import kernel_sources
from kdissect.jit.kernel_sources import PACKAGE

SWITCH = "KDISSECT_JIT"  # environment variable; 0: kernels run uncompiled
SMALL_BYTES = 6 << 20  # of captures; dissecting that much uncompiled takes about ten seconds
COMPRESSION = 6  # estimated growth of captures when they are decompressed


@cache
def kernel_home() -> Path:
    """Return the directory of the compiled kernels of these sources, which need not exist."""
    return cache_home() / f"kernels-{kernel_sources.known_digest(cache_home())}"


def is_complete() -> bool:
    """Return whether all kernels are in the cache."""
    if not _seal().exists():
        return False
    mark_used(kernel_home())
    return True


def is_missing() -> bool:
    """Return whether this run would have to compile kernels."""
    return os.environ.get(SWITCH) != "0" and not _is_elsewhere() and not is_complete()


def _is_elsewhere() -> bool:
    """Return whether Numba keeps what it compiles in a directory of the user's choice, which nobody seals."""
    home = str(kernel_home())
    return os.environ.get("NUMBA_CACHE_DIR", home) != home


def mark_complete() -> None:
    """Record that all kernels have been called, and so cached, unless this run does not compile."""
    if os.environ.get(SWITCH) == "0" or _is_elsewhere():
        return
    with suppress(OSError):
        kernel_home().mkdir(parents=True, exist_ok=True)
        _seal().touch()
        found = (*cache_home().glob("kernels-*"), *cache_home().glob("sources-*.json"))
        remove_old(path for path in found if path != kernel_home())


def run_uncompiled(paths: list[str]) -> bool:
    """Switch the compiler off for a run over small captures, before any kernel is loaded.

    Return whether it is off.
    """
    if SWITCH in os.environ or "kdissect.jit.decorators" in sys.modules or is_complete():
        return False
    small = are_small(paths)
    if small:
        os.environ[SWITCH] = "0"
    return small


def are_small(paths: list[str]) -> bool:
    """Return whether captures are so small that starting what makes large ones fast does not pay."""
    try:
        return sum(_size(Path(path)) for path in paths) <= SMALL_BYTES
    except OSError:
        return False  # standard input, or a path that is refused later


def compile_in_background() -> bool:
    """Compile all kernels in a process that outlives this one.

    Return False if that is running already, or fails.

    The holder of the lock compiles. The process inherits the lock, which ends with it.
    """
    try:
        lock = _open_lock()
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _start_compiling(lock, LOWEST_PRIORITY)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def compile_first() -> bool:
    """Compile all kernels in a process of their own, and wait for it, if this run compiles and lacks some.

    Return whether it had to. The compiler takes half a gigabyte, which that process gives back when it ends.
    Otherwise this process and the daemon of Spark's workers would both compile, and keep that memory.
    """
    if not is_missing():
        return False
    try:
        lock = _open_lock()
    except OSError:
        return False  # no cache: everybody compiles what he needs
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for a process that compiles already
        if not is_complete():
            _start_compiling(lock, USUAL_PRIORITY).wait()
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _open_lock() -> int:
    kernel_home().mkdir(parents=True, exist_ok=True)
    return os.open(kernel_home() / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _start_compiling(lock: int, priority: int) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != SWITCH}
    return start_program("kdissect.spark.startup.compile_kernels", str(priority), lock, environment)


def _seal() -> Path:
    return kernel_home() / "all"


def _size(path: Path) -> int:
    """Return the bytes of a capture, or of those in a directory, which are read one level deep."""
    if path.is_dir():
        return sum(_size(inside) for inside in path.iterdir() if inside.is_file())
    compressed = path.suffix in {".gz", ".zst", ".zstd"}
    return path.stat().st_size * (COMPRESSION if compressed else 1)


def forget_damaged_files(caching: Any) -> None:
    """Make Numba's module `caching` treat a file that it cannot read as missing, and compile again.

    Numba itself fails over a file that a full disk cut off, and over one that it cannot write.
    """
    files = caching.IndexDataCacheFile
    load, save = files.load, files.save

    def load_or_forget(self: Any, key: Any) -> Any:
        try:
            return load(self, key)
        except Exception:  # noqa: BLE001 - a pickle of arbitrary bytes can raise anything
            with suppress(OSError):
                Path(self._index_path).unlink()
            return None

    def save_if_possible(self: Any, key: Any, data: Any) -> None:
        with suppress(OSError):
            save(self, key, data)

    files.load, files.save = load_or_forget, save_if_possible


def ignore_location(caching: Any) -> None:
    """Make Numba's module `caching` know the kernels of the package by their place inside of it.

    The name of the cache's directory stands for their sources, so their times need not agree either. A cache
    that this user may only read serves as well. Numba keeps functions of other packages as ever.
    """
    underscore = "_" if hasattr(caching, "_UserProvidedCacheLocator") else ""  # in older versions of Numba
    provided: Any = getattr(caching, f"{underscore}UserProvidedCacheLocator")
    root = str(PACKAGE.parent) + os.sep
    inside = str(PACKAGE) + os.sep
    usable = set[str]()  # directories: Numba would make a file in each of them for every one of its kernels

    class PackageLocator(provided):  # type: ignore[misc] # of a class that has no types
        """Return where the compiled code of a kernel of the package is kept."""

        @classmethod
        def from_function(cls, function: Any, file: str) -> Any:
            return super().from_function(function, file) if file.startswith(inside) else None

        @classmethod
        def get_suitable_cache_subpath(cls, file: str) -> str:
            return os.path.dirname(file.removeprefix(root)).replace(os.sep, ".")

        def ensure_cache_path(self) -> None:
            path = self.get_cache_path()
            home = os.path.dirname(path)
            if path not in usable and (os.access(home, os.W_OK) or not os.path.isdir(home)):
                super().ensure_cache_path()
            usable.add(path)

        def get_source_stamp(self) -> str:
            return kernel_home().name

    # Before Numba's own: the first that knows a function keeps it.
    caching.CacheImpl._locator_classes.insert(0, PackageLocator)  # noqa: SLF001
