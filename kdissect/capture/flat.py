"""Compile loops that own nothing: `@jit_flat` is `@jit` without the counting of references.

Numba counts a reference, atomically, for every array that is handed to another function: a third of all the time that
pass one has for a packet. A flat function makes no arrays and keeps none, so nothing can die while it runs. Whoever
calls it from Python holds its arrays. The compiler refuses a flat function that allocates.
"""

import os
from collections.abc import Callable
from typing import Any

from kdissect.kernel import jit


def _compiler() -> Callable[[Any], Any]:
    if os.environ.get("KDISSECT_JIT") == "0":
        return jit
    import numba  # noqa: PLC0415 - with KDISSECT_JIT=0 Numba is never loaded

    options: Any = {"cache": True, "nogil": True, "_nrt": False}
    compiler: Any = numba.njit(**options)
    return compiler  # type: ignore[no-any-return]


jit_flat: Callable[[Any], Any] = _compiler()
