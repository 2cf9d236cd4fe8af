"""The user's cache: what can be made again, and is trusted when it is found again.

Compiled kernels, Spark's class archive and an unpacked package are code. A user who can write into the
directory that holds them can run code as the user who loads them. So the directory is made for its owner
alone (mode 0700), and its owner, its mode and the directories above it are checked before anything is read
from it. The rules are those of OpenSSH for the files of a user (StrictModes in sshd_config(5)): nobody but
the user and the system may own a directory on the way, and nobody else may rename what is in it.

Trusted are the user himself and the accounts of the system. Root trusts only root: with the home directory of
another user (`sudo -E`), root must not run what that user left there.
"""

import errno
import grp
import os
import pwd
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kdissect.errors import UserError

OWNER_ONLY = 0o700
DAY_SECONDS = 86400
KEPT_SECONDS = 30 * DAY_SECONDS  # what other versions made is removed when it was last used before that
MOST_LINKS = 40  # on one way; the system follows no more (path_resolution(7))
FIRST_ORDINARY_USER = 1000  # UID_MIN of login.defs(5): accounts below it belong to the system
ADVICE = "remove it, or set XDG_CACHE_HOME to a directory of your own"


class UnusableCacheError(UserError):
    """The cache may not be read, or another user could have put code there; the message is one sentence."""


def cache_home() -> Path:
    """Return the user's cache directory for kdissect, made if that is possible, and checked.

    It is `kdissect` in XDG_CACHE_HOME, which is ignored if it is relative (XDG Base Directory Specification).
    An own directory that others may read is closed to them. Raise UnusableCacheError if another user can
    write there, or if this one may not read it.
    """
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(chosen) if os.path.isabs(chosen) else _home() / ".cache"
    path = home / "kdissect"
    with suppress(OSError):
        home.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)
    check_private(path)
    with suppress(OSError):
        if stat.S_IMODE(path.stat().st_mode) & ~OWNER_ONLY:
            path.chmod(OWNER_ONLY)
    return path


def _home() -> Path:
    """Return the home directory; one that is not there if neither HOME nor /etc/passwd names it."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def is_private(path: Path) -> bool:
    """Return whether a directory belongs to this user, and nobody else may write to it."""
    found = path.stat()
    return found.st_uid == os.geteuid() and not _others_write(found)


def check_private(path: Path) -> None:
    """Raise UnusableCacheError unless a directory is the user's own, readable, and nobody else's to replace.

    A missing directory is not checked.
    """
    try:
        for place in _on_the_way(path):
            with suppress(FileNotFoundError, NotADirectoryError):
                _check_parent(place)
        _check_own(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except PermissionError as error:  # root made it for itself in the home of this user, say
        raise UnusableCacheError(f"this user may not read the cache {path}: {ADVICE}") from error
    except OSError as error:
        if error.errno != errno.ELOOP:  # links that lead round lead to nothing
            raise


def _on_the_way(path: Path) -> Iterator[Path]:
    """Return the directories and links through which a path leads, link by link, but not where it ends."""
    at, left, links = Path("/"), list(reversed(Path(os.path.abspath(path)).parts[1:])), 0
    while left:
        part = left.pop()
        at = at.parent if part == ".." else at / part
        if at.is_symlink() and links < MOST_LINKS:
            yield at
            target = at.readlink()
            links += 1
            at = Path("/") if target.is_absolute() else at.parent
            left += reversed([name for name in target.parts if name != "/"])
        elif left:
            yield at


def _check_parent(path: Path) -> None:
    found, user = path.lstat(), os.geteuid()
    system = 0 if user == 0 else FIRST_ORDINARY_USER - 1
    if found.st_uid != user and found.st_uid > system:
        raise UnusableCacheError(
            f"{path}, which leads to the cache, belongs to {_user(found.st_uid)}, who could put code there: "
            "set XDG_CACHE_HOME to a directory of your own"
        )
    sticky = found.st_mode & stat.S_ISVTX  # nobody renames what is not his own
    if not stat.S_ISLNK(found.st_mode) and not sticky and _others_write(found):
        raise UnusableCacheError(
            f"other users may replace what is in {path}, which leads to the cache: "
            "set XDG_CACHE_HOME to a directory of your own"
        )


def _check_own(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        if found.st_uid not in (os.geteuid(), 0):
            raise UnusableCacheError(
                f"the cache {path} belongs to {_user(found.st_uid)}, who could put code there: {ADVICE}"
            )
        if _others_write(found):
            raise UnusableCacheError(
                f"other users may write to the cache {path} and could put code there: {ADVICE}"
            )
    finally:
        os.close(file)


def _others_write(found: os.stat_result) -> bool:
    """Return whether anybody but the owner and the system may write."""
    group = found.st_mode & stat.S_IWGRP and found.st_gid != 0 and not _is_private_group(found.st_gid)
    return bool(found.st_mode & stat.S_IWOTH or group)


def _is_private_group(group: int) -> bool:
    """Return whether a group has this user's name and no other member, as many systems make one for each.

    A user whose primary group it is need not be listed as its member.
    """
    try:
        user, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    if found.gr_name != user or not set(found.gr_mem) <= {user}:
        return False
    return all(one.pw_name == user for one in pwd.getpwall() if one.pw_gid == group)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def mark_used(path: Path) -> None:
    """Note, once a day, that something of the cache is in use: `remove_old` goes by that."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > DAY_SECONDS:
            os.utime(path)


def is_old(path: Path) -> bool:
    """Return whether something was last changed or used before `KEPT_SECONDS`. Raise OSError."""
    return path.stat().st_mtime < time.time() - KEPT_SECONDS


def remove_old(paths: Iterable[Path]) -> None:
    """Remove the files and folders among `paths` that are old."""
    for path in paths:
        with suppress(OSError):
            if not is_old(path):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
