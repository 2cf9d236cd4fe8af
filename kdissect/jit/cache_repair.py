"""Numba's files of compiled code, which may be damaged: it would fail over one that is cut off, by a full disk for example.

What cannot be read is as good as not there: the function is compiled anew, and its files are written anew.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any


def mend(caching: Any) -> None:
    """Make Numba's module `caching` forget what it cannot read."""
    files = caching.IndexDataCacheFile
    load = files.load
    if getattr(load, "mends", False):
        return

    def load_or_forget(self: Any, key: Any) -> Any:
        try:
            return load(self, key)
        except Exception:  # noqa: BLE001 - whatever a pickle of arbitrary bytes leads to
            with suppress(OSError):
                Path(self._index_path).unlink()
            return None

    load_or_forget.mends = True  # type: ignore[attr-defined]
    files.load = load_or_forget
