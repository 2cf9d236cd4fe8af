"""Files and directories of kdissect's own: written atomically, temporary, or cached.

And what the machine offers.

Output is written under a hidden name beside its place, `.NAME.PID.part`, and renamed when it is complete, so
that it is never half a file. Temporary files lie in `kdissect-*` in the directory for temporary files. A
process locks what it works on (flock(2)), and the lock ends with the process. A part or a directory without a
lock was left by a run that was killed; the next run removes it. What can be made again (compiled kernels,
Spark's class archive) lies in the user's cache.
"""

import errno
import fcntl
import glob
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

LOCK = "lock"  # in a scratch directory
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
PROBED = 4096  # bytes: a page, or a block


def cache_home() -> Path:
    """Return the user's cache directory for kdissect (XDG Base Directory Specification: XDG_CACHE_HOME)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kdissect"


def processor_count() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_full(folder: Path) -> bool:
    """Return whether nothing more can be written to a folder, by writing.

    Only that covers bytes, inodes and quotas.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            return file.write(bytes(PROBED)) < PROBED
    except OSError as error:
        return error.errno in NO_ROOM


class FileLock:
    """A lock on a part or a directory, held until `end` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._file = -1
        with suppress(OSError):  # not every file system has locks
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def end(self) -> None:
        """Release the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def part_path(path: Path) -> Path:
    """Return the name under which `path` is written. Remove the parts that killed runs left for it."""
    for stray in _named(path, "part"):
        _remove_stray(stray, stray)
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def move_into_place(part: Path, path: Path, replace: bool) -> None:
    """Rename a complete directory to its place; with `replace`, over an older one.

    These are two renames: a run that is killed between them leaves the older one as `.NAME.PID.old`
    (`recover_replaced`).
    """
    old = part.with_suffix(".old")
    if replace and path.is_dir():
        path.rename(old)
    part.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def recover_replaced(path: Path) -> None:
    """Undo or complete the renames of a `move_into_place` in which a run was killed."""
    for old in _named(path, "old"):
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(path)


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically: it is the old or the new one, never half of either."""
    part = part_path(path)
    try:
        with part.open("w", encoding="utf-8") as file:
            claim = FileLock(part)
            file.write(text)
        part.replace(path)
        claim.end()
    finally:
        part.unlink(missing_ok=True)


class ScratchDirectory:
    """A directory for temporary files at `path`, until `end` or the end of a `with`.

    Those of killed runs are removed first.
    """

    def __init__(self) -> None:
        for stray in Path(tempfile.gettempdir()).glob("kdissect-*"):
            _remove_stray(stray, stray / LOCK)
        self.path = Path(tempfile.mkdtemp(prefix="kdissect-"))
        early = self.path / f".{LOCK}"
        try:
            early.touch()
        except OSError:
            self.path.rmdir()  # without a lock no later run would remove it
            raise
        self._claim = FileLock(early)
        early.rename(self.path / LOCK)  # no other run sees it before it is locked

    def end(self) -> None:
        """Remove the directory and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._claim.end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.end()


def _named(path: Path, kind: str) -> list[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.*.{kind}"))


def _empty(folder: Path, last: Path) -> None:
    """Remove what is in a folder, `last` when nothing else is left.

    A killed run may have children that still write.
    """
    for inside in folder.iterdir():
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside, ignore_errors=True)
        elif inside != last:
            inside.unlink()
    if list(folder.iterdir()) == [last]:
        last.unlink()


def _remove_stray(path: Path, locked: Path) -> None:
    """Remove a path if nobody holds the lock on it and it belongs to this user."""
    with suppress(OSError):
        file = os.open(locked, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if os.fstat(file).st_uid != os.getuid():
                return
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                _empty(path, locked)
                path.rmdir()
            else:
                path.unlink()
        finally:
            os.close(file)
