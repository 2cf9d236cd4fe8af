"""Where compiled kernels are kept, and whether there are any: known without loading the compiler.

Compiling all kernels takes the better part of a minute, once for an installation. A small capture is done sooner by the
same loops uncompiled; so the first runs on small captures go without, and have the kernels compiled when they are
through, by a process of its own that works when nothing else wants to (`spark.startup.warmup`).

The directory is named after everything that compiled code depends on: the sources of the package and where they lie, the
versions of Python, NumPy and Numba, the limits that are set. Numba's own cache looks only at the file of the outermost function; the name closes that
hole, and makes two versions or two users never meet. Losing the cache costs time, nothing else.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kdissect.files import cache_home

# As Numba names it: a path through `..` is the same place.
PACKAGE = Path(os.path.abspath(__file__)).parents[1]
SWITCH = "KDISSECT_JIT"  # environment variable; 0: kernels run uncompiled
SMALL_BYTES = 6 << 20  # of captures: dissecting that much uncompiled takes about ten seconds
KEPT_SECONDS = 30 * 86400  # kernels of other versions are removed when they are older
COMPRESSION = 6  # how much longer captures are, at a guess, when they are decompressed


@cache
def kernel_home() -> Path:
    """Give the directory of this installation's compiled kernels, which need not exist."""
    from kdissect.limits import LIMITS_VARIABLE  # the import raises LimitsError if the variable is wrong

    digest = hashlib.sha256()
    built_for = (
        sys.version,
        version("numpy"),
        version("numba"),
        str(PACKAGE),
        os.environ.get(LIMITS_VARIABLE, ""),
    )
    for name in built_for:
        digest.update(name.encode())
    for source in sorted(PACKAGE.rglob("*.py")):
        text = source.read_bytes()
        if b"@jit" in text or b"@row_type" in text:
            digest.update(b"%d" % source.stat().st_mtime_ns)  # Numba compiles anew when that changes
            digest.update(text)
    return cache_home() / f"kernels-{digest.hexdigest()[:16]}"


def is_complete() -> bool:
    """Say whether every kernel has been compiled and kept."""
    return _seal().exists()


def mark_complete() -> None:
    """Take note that every kernel has been called, and so compiled and kept, unless this run goes without."""
    if os.environ.get(SWITCH) == "0":
        return
    with suppress(OSError):
        kernel_home().mkdir(parents=True, exist_ok=True)
        _seal().touch()
        for other in kernel_home().parent.glob("kernels-*"):
            if other != kernel_home() and other.stat().st_mtime < time.time() - KEPT_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


def run_uncompiled(paths: list[str]) -> bool:
    """Decide for a run over these captures, before any kernel is loaded, that it goes without the compiler."""
    if SWITCH in os.environ or "kdissect.jit.decorators" in sys.modules or is_complete():
        return False
    try:
        small = sum(_size(Path(path)) for path in paths) <= SMALL_BYTES
    except OSError:
        return False  # standard input, or a path that is refused later
    if small:
        os.environ[SWITCH] = "0"
    return small


def compile_in_background() -> bool:
    """Have all kernels compiled by a process that outlives this one; False when that is being done, or cannot be.

    Whoever holds the lock compiles; the lock is handed to the process and goes with it.
    """
    try:
        kernel_home().mkdir(parents=True, exist_ok=True)
        lock = os.open(kernel_home() / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        subprocess.Popen(
            [sys.executable, "-m", "kdissect.spark.startup.warmup"],
            env={name: value for name, value in os.environ.items() if name != SWITCH} | import_path(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C and the end of the terminal are not meant for it
            pass_fds=[lock],
        )
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _seal() -> Path:
    return kernel_home() / "all"


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(_size(inside) for inside in path.iterdir())
    compressed = path.suffix in {".gz", ".zst", ".zstd"}
    return path.stat().st_size * (COMPRESSION if compressed else 1)


def import_path() -> dict[str, str]:
    """Give the environment in which a Python that is started finds this package."""
    known = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *([known] if known else [])])}


def forget_damaged_files(caching: Any) -> None:
    """Make Numba's module `caching` treat a file that it cannot read as missing, so that the function is compiled again.

    Numba itself fails over a file that a full disk cut off.
    """
    files = caching.IndexDataCacheFile
    load = files.load
    if getattr(load, "mends", False):
        return

    def load_or_forget(self: Any, key: Any) -> Any:
        try:
            return load(self, key)
        except Exception:  # noqa: BLE001 - a pickle of arbitrary bytes can raise anything
            with suppress(OSError):
                Path(self._index_path).unlink()
            return None

    load_or_forget.mends = True  # type: ignore[attr-defined]
    files.load = load_or_forget
