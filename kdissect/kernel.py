"""The compiler switch: the loops that touch every packet are compiled by Numba, or run as plain Python.

A kernel is a module-level function under `@jit`: NumPy arrays and integers in, arrays filled in place, no objects,
no exceptions. With ``KDISSECT_JIT=0`` in the environment the same source runs uncompiled, which the tests do too.

Compiled code is kept in the user's cache directory, under a name made of everything it depends on (the sources of
the package, the versions of Python, NumPy and Numba). Numba's own cache looks only at the file of the outermost
function; the name closes that hole, and makes two versions or two users never meet. Losing the cache costs time, nothing else.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kdissect.cache import cache_home

PACKAGE = Path(__file__).parent


def _kernel_fingerprint() -> str:
    digest = hashlib.sha256()
    for name in (sys.version, version("numpy"), version("numba")):
        digest.update(name.encode())
    for source in sorted(PACKAGE.rglob("*.py")):
        text = source.read_bytes()
        if b"@jit" in text:
            digest.update(text)
    return digest.hexdigest()[:16]


def _compiler(**options: Any) -> Callable[[Any], Any]:
    if os.environ.get("KDISSECT_JIT") == "0":
        return lambda function: function
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_home() / f"kernels-{_kernel_fingerprint()}"))
    import numba

    compiler: Callable[[Any], Any] = numba.njit(nogil=True, error_model="numpy", **options)
    return compiler


jit: Callable[[Any], Any] = _compiler(cache=True)

# Numba counts a reference, atomically, for every array that is handed to another function: up to three quarters of the time
# of a loop that calls many small ones. A flat kernel makes no arrays and keeps none, so nothing can die while
# it runs: whoever calls it from Python holds its arrays. The compiler refuses a flat kernel that allocates.
jit_flat: Callable[[Any], Any] = _compiler(cache=True, _nrt=False)

# A flat kernel that only other kernels call: it becomes part of them, so it needs no cache and has no way in from Python
# (called from there it would crash: a test looks that nobody does).
jit_inner: Callable[[Any], Any] = _compiler(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
