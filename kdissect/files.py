"""Files and directories in the making: whole or not there, and cleaned up by the next run after one that was killed.

What is made stands under a hidden name, `.NAME.PID.part` beside its place, and is renamed when it is whole; scratch lies in
`kdissect-*` in the directory for temporary files. Whoever works on one of them holds a lock on it (flock(2)), which ends with the
process, however that ends. So one without a lock is a stray, and is removed by whoever makes the next one.
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


def is_full(folder: Path) -> bool:
    """Say whether nothing more can be written there. By writing: no other question covers bytes, inodes and quotas."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            return file.write(bytes(PROBED)) < PROBED
    except OSError as error:
        return error.errno in NO_ROOM


class Claim:
    """A lock on something in the making, until `end`, or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._file = -1
        with suppress(OSError):  # not every file system has locks
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def end(self) -> None:
        """Let go."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def part_of(path: Path) -> Path:
    """Give the name under which `path` is made, when strays of the same were removed."""
    for stray in _named(path, "part"):
        _remove_stray(stray, stray)
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def put_in_place(part: Path, path: Path, replace: bool) -> None:
    """Let a directory that is whole take its place, with `replace` from an older one.

    Two renames: a run that is killed between them leaves the older one as `.NAME.PID.old`, see `put_back`.
    """
    old = part.with_suffix(".old")
    if replace and path.is_dir():
        path.rename(old)
    part.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def put_back(path: Path) -> None:
    """Undo what `put_in_place` had begun, or end it, after a run that was killed there."""
    for old in _named(path, "old"):
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(path)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is either the old or the new one, never half of either."""
    part = part_of(path)
    try:
        with part.open("w", encoding="utf-8") as file:
            claim = Claim(part)
            file.write(text)
        part.replace(path)
        claim.end()
    finally:
        part.unlink(missing_ok=True)


class Scratch:
    """A directory for temporary files at `path`, until `end` or the end of a `with`; strays of killed runs are removed first."""

    def __init__(self) -> None:
        for stray in Path(tempfile.gettempdir()).glob("kdissect-*"):
            _remove_stray(stray, stray / LOCK)
        self.path = Path(tempfile.mkdtemp(prefix="kdissect-"))
        early = self.path / f".{LOCK}"
        try:
            early.touch()
        except OSError:
            self.path.rmdir()  # without a lock nobody would
            raise
        self._claim = Claim(early)
        early.rename(self.path / LOCK)  # nobody sees it before it is locked

    def end(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._claim.end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.end()


def _named(path: Path, kind: str) -> list[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.*.{kind}"))


def _empty(folder: Path, last: Path) -> None:
    """Remove what is in a folder, `last` when nothing else is left: what was killed may have children that still write."""
    for inside in folder.iterdir():
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside, ignore_errors=True)
        elif inside != last:
            inside.unlink()
    if list(folder.iterdir()) == [last]:
        last.unlink()


def _remove_stray(path: Path, locked: Path) -> None:
    """Remove what nobody holds a lock on, if it is ours."""
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
