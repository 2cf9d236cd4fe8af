"""Files and directories of kdissect's own: written atomically, or temporary. And what the machine offers.

Output is written under a hidden name beside its place, `.NAME.RANDOM.part`, and renamed when it is complete,
so that it is never half a file. Temporary files lie in `kdissect-*` in the directory for temporary files. A
process locks what it works on (flock(2)), and the lock ends with the process. A part or a directory without a
lock was left by a run that was killed; the next run removes it.

Other users may write to the same directories. So names cannot be guessed, files are made new (O_EXCL), names
are looked up in directories that are open already (openat(2)), links are not followed, and what belongs to
another user is left alone.
"""

import errno
import fcntl
import fnmatch
import glob
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

LOCK = ".kdissect-scratch"  # in a scratch directory: no other directory has a file of this name
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST)  # by a directory that is not empty, says rename(2)
PROBED = 4096  # bytes: a page, or a block
RANDOM_BYTES = 8  # in the name of a part
CLOSED_TO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | CLOSED_TO_LINKS  # a FIFO in the place of a file would block
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A directory that may be written to and not listed; macOS has nothing of the kind.
PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
MOST_NAME_BYTES = 200  # of the name of a target in that of its part, which has room for 255 in all
MOST_TRIES = 10  # to make a part that another process has locked before this one


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
    """A lock on an open file or directory, held until `end` or the end of the process."""

    def __init__(self, file: int) -> None:
        """Lock what a descriptor refers to, and own the descriptor from now on."""
        self.file = file
        self.is_held = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.is_held = False
        except OSError:
            pass  # not every file system has locks

    def end(self) -> None:
        """Release the lock."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


class UnfinishedOutput:
    """A file or directory on its way to `target`, made beside it under a random name and moved there.

    It is a context manager, and its end removes what was not moved.
    """

    def __init__(self, target: Path) -> None:
        """Remove the parts that killed runs left for the target.

        Raise OSError without its directory, and if a device or a pipe is in its place.
        """
        check_replaceable(target)
        self.target = target
        self.path = _part_of(target)
        self._folder = os.open(target.parent, PLACE)
        self._lock: FileLock | None = None
        for name in _strays(self._folder, _pattern(target, "part")):
            _remove_stray(self._folder, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @contextmanager
    def file(self) -> Iterator[IO[str]]:
        """Make the part as a file, and return it open for text in UTF-8."""
        with open(self._make_file(0o666), "w", encoding="utf-8", closefd=False) as file:
            yield file

    @contextmanager
    def binary_file(self, mode: int = 0o666) -> Iterator[IO[bytes]]:
        """Make the part as a file with these permissions, and return it open for bytes."""
        with open(self._make_file(mode), "wb", closefd=False) as file:
            yield file

    def _make_file(self, mode: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOSED_TO_LINKS
        file = self._locked(lambda name: os.open(name, flags, mode, dir_fd=self._folder))
        with suppress(OSError):  # who was not to read the old file is not to read the new one
            old = os.stat(self.target.name, dir_fd=self._folder, follow_symlinks=False)
            if stat.S_ISREG(old.st_mode) and old.st_uid == os.geteuid():
                os.fchmod(file, stat.S_IMODE(os.fstat(file).st_mode & old.st_mode))
        return file

    def directory(self, mode: int = 0o777) -> Path:
        """Make the part as a directory, and return its path."""

        def make(name: str) -> int:
            os.mkdir(name, mode, dir_fd=self._folder)
            return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=self._folder)

        self._locked(make)
        return self.path

    def _locked(self, make: Callable[[str], int]) -> int:
        """Make and lock the part. Return its descriptor.

        Another run may take it for a stray before it is locked, and remove it: then it is made again.
        """
        for _ in range(MOST_TRIES):
            with suppress(FileNotFoundError):
                self._lock = FileLock(make(self.path.name))
                if self._lock.is_held and _is_same(self._folder, self.path.name, self._lock.file):
                    return self._lock.file
            if self._lock is not None:
                self._lock.end()
            self.path = _part_of(self.target)
        raise OSError(errno.EBUSY, "other processes lock what is written there")

    def move(self, replace: bool = False) -> None:
        """Rename the part to its place; with `replace`, a directory there makes room first.

        These are two renames: a run that is killed between them leaves the older one as `.NAME.RANDOM.old`
        (`recover_replaced`). If another run puts a directory there between them, that one makes room, too.
        Raise OSError if somebody put something else in the place of the part.
        """
        assert self._lock is not None
        name, old = self.target.name, self.path.with_suffix(".old").name
        if not _is_same(self._folder, self.path.name, self._lock.file):
            raise OSError(errno.ESTALE, "the unfinished output was replaced by another process")
        is_there = False
        while not is_there:
            if replace and self.target.is_dir():
                with suppress(FileNotFoundError):  # another run did so
                    self._rename(name, old)
            is_there = self._put(name, replace)
            _remove(self._folder, old)

    def _put(self, name: str, replace: bool) -> bool:
        """Rename the part to its place, and return True.

        With `replace`, return False if another run has put a directory there. Raise OSError.
        """
        try:
            self._rename(self.path.name, name)
        except OSError as error:
            if replace and error.errno in OCCUPIED:
                return False
            raise
        return True

    def end(self) -> None:
        """Remove the part if it was not moved, and release the lock."""
        if self._folder >= 0:
            _remove(self._folder, self.path.name)
            os.close(self._folder)
            self._folder = -1
        if self._lock is not None:
            self._lock.end()

    def _rename(self, name: str, other: str) -> None:
        os.rename(name, other, src_dir_fd=self._folder, dst_dir_fd=self._folder)


def check_replaceable(target: Path) -> None:
    """Raise OSError if a target exists and is neither a file nor a directory: renaming would remove it."""
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OSError(errno.EINVAL, "it is a device or a pipe, and only files can be written")


def recover_replaced(target: Path) -> None:
    """Undo or complete the renames of a `UnfinishedOutput.move` in which a run was killed."""
    with suppress(OSError):
        folder = os.open(target.parent, DIRECTORY)
        try:
            for name in _strays(folder, _pattern(target, "old")):
                if os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid != os.geteuid():
                    continue
                if os.path.lexists(target):
                    _remove(folder, name)
                else:
                    os.rename(name, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically: it is the old or the new one, never half of either."""
    with UnfinishedOutput(path) as part:
        with part.file() as file:
            file.write(text)
        part.move()


class ScratchDirectory:
    """A directory for temporary files at `path`, until `end` or the end of a `with`.

    Those of killed runs are removed first. A child process that inherits the descriptor `lock` keeps the
    directory for as long as it runs.
    """

    def __init__(self) -> None:
        temporary = os.open(tempfile.gettempdir(), DIRECTORY)
        try:
            for name in _strays(temporary, "kdissect-*"):
                _remove_stray(temporary, name, LOCK)
        finally:
            os.close(temporary)
        self.path = Path(tempfile.mkdtemp(prefix="kdissect-"))
        early = self.path / f".{LOCK}"
        try:
            made = os.open(early, os.O_RDONLY | os.O_CREAT | os.O_EXCL | CLOSED_TO_LINKS, 0o600)
        except OSError:
            self.path.rmdir()  # without a lock no later run would remove it
            raise
        self._lock = FileLock(made)
        self.lock = made
        early.rename(self.path / LOCK)  # no other run sees it before it is locked

    def end(self) -> None:
        """Remove the directory and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.end()


def _part_of(target: Path) -> Path:
    """Return a path for a part of the target, which nobody can guess."""
    return target.with_name(f".{_beginning(target)}.{secrets.token_hex(RANDOM_BYTES)}.part")


def _beginning(target: Path) -> str:
    return os.fsdecode(os.fsencode(target.name)[:MOST_NAME_BYTES])


def _pattern(target: Path, kind: str) -> str:
    return f".{glob.escape(_beginning(target))}.*.{kind}"


def _strays(folder: int, pattern: str) -> list[str]:
    with suppress(OSError):  # a directory that may be written to and not listed
        listed = os.open(".", DIRECTORY, dir_fd=folder)
        try:
            return fnmatch.filter(os.listdir(listed), pattern)
        finally:
            os.close(listed)
    return []


def _is_same(folder: int, name: str, file: int) -> bool:
    """Return whether a name in a folder is the open file."""
    return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(file))


def _remove(folder: int, name: str) -> None:
    """Remove a file, a link or a whole directory, if it is there."""
    with suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def _remove_stray(folder: int, name: str, lock: str | None = None) -> None:
    """Remove what is of this user and nobody holds the lock on.

    The lock is on the file itself, or for a directory on the file `lock` in it.
    """
    with suppress(OSError):
        stray = os.open(name, READ, dir_fd=folder)
        held = -1
        try:
            held = os.dup(stray) if lock is None else os.open(lock, READ, dir_fd=stray)
            if any(not _is_own(file) for file in (stray, held)):
                return
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISDIR(os.fstat(stray).st_mode):
                _empty(stray, lock)
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(stray)
            if held >= 0:
                os.close(held)


def _is_own(file: int) -> bool:
    found = os.fstat(file)
    return found.st_uid == os.geteuid() and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


def _empty(folder: int, last: str | None) -> None:
    """Remove what is in a folder, `last` when nothing else is left.

    A killed run may have children that still write.
    """
    for name in os.listdir(folder):
        if name != last:
            _remove(folder, name)
    if last is not None and os.listdir(folder) == [last]:
        os.unlink(last, dir_fd=folder)
