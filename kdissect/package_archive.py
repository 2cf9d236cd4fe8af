"""The package on its way to the executors of a cluster, where it is not installed.

The driver packs its own copy into a zip archive, the schemas with it, and Spark brings that to every
executor. A process that imports kdissect from such an archive unpacks it once, into the user's cache under a
name made of its contents, and goes on from there: data files are files again, and compiled kernels, which are
kept by the place of their sources, serve the next run too. If there is no home to write to, or others can
write there, a new directory takes its place, in the executor's working directory or that for temporary files.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kdissect.cache_directory import UnusableCacheError, cache_home

ARCHIVE = "kdissect.zip"
PACKAGE = Path(__file__).parents[0]
ALWAYS = (1980, 1, 1, 0, 0, 0)  # equal contents give equal archives
ALWAYS_NS = 315532800 * 10**9
UNWANTED = frozenset({"__pycache__"})


def pack(folder: Path) -> Path:
    """Write the archive into a folder; give its path."""
    target = folder / ARCHIVE
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _contents():
            name = f"{PACKAGE.name}/{path.relative_to(PACKAGE).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name, ALWAYS), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def unpacked(archive: Path) -> Path:
    """Return the folder of the package that is in an archive, unpacked on this machine."""
    name = f"package-{hashlib.sha256(archive.read_bytes()).hexdigest()[:16]}"
    with suppress(OSError, RuntimeError, UnusableCacheError):  # no home, or none that may be written to
        return _unpack(archive, cache_home() / name)
    for place in (Path.cwd(), Path(tempfile.gettempdir())):
        with suppress(OSError, UnusableCacheError):
            # Compiled kernels go there too.
            os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="kdissect-", dir=place)
            return _unpack(archive, cache_home() / name)
    raise FileNotFoundError("no directory in which the package could be unpacked")


def _contents() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and not UNWANTED.intersection(path.parts):
            yield path


def _unpack(archive: Path, target: Path) -> Path:
    package = target / PACKAGE.name
    if package.is_dir():
        return package
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(part)
        for path in part.rglob("*.py"):
            # A kernel is compiled anew when the time of its source changes.
            os.utime(path, ns=(ALWAYS_NS, ALWAYS_NS))
        with suppress(OSError):  # another process was faster
            part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    if not package.is_dir():
        raise FileNotFoundError(package)
    return package
