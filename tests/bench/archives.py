"""Waiting for makers of class archives, which first runs leave behind: they would disturb other runs."""

import fcntl
import time
from pathlib import Path

from kdissect.cache_directory import cache_home

PATIENCE_SECONDS = 300


def await_archives(cache: Path | None = None) -> None:
    """Return when nobody makes a class archive in a cache, or after some minutes."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while any(map(_is_held, (cache or cache_home()).glob("classes-*.lock"))) and time.monotonic() < patience:
        time.sleep(0.2)


def _is_held(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
