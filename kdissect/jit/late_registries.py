"""Compiled kernels are loaded without what Numba's compiler knows of Python and NumPy.

Numba fills its registries before it loads the first kernel from its cache: some 60 modules with thousands of
implementations of functions, types and conversions. Only its compiler reads them, and fills them itself. A
kernel that comes from the cache needs no more than the runtime that counts references to arrays.
"""

from importlib import import_module
from typing import Any


def fill_registries_late() -> None:
    """Make Numba fill its registries when something is compiled."""
    runtime: Any = import_module("numba.core.runtime").rtsys
    kernels: Any = import_module("numba.core.caching").Cache

    def load_overload(self: Any, signature: Any, context: Any) -> Any:
        runtime.initialize(context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)

    kernels.load_overload = load_overload
