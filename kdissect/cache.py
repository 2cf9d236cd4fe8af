"""Where kdissect keeps what it can make again: compiled kernels, Spark's class archive."""

import os
from pathlib import Path


def cache_home() -> Path:
    """Give the user's cache directory for kdissect (XDG Base Directory: XDG_CACHE_HOME)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kdissect"
