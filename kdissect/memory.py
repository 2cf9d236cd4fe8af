"""How this process and Spark's workers hold memory: which allocator Arrow uses, and when freed memory goes.

PyArrow brings allocators of its own, which keep freed memory for the next column. The columns of a dissection
differ in size, so each worker kept 100 MiB that nothing used. The allocator of the system returns large
blocks at once.
"""

import ctypes
import gc
import os
from collections.abc import MutableMapping
from functools import cache
from typing import Any

ARROW_ALLOCATOR = ("ARROW_DEFAULT_MEMORY_POOL", "system")
"""The variable that Arrow reads when it is loaded, and the value that kdissect gives it."""


def choose_allocator(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have Arrow use the allocator of the system, unless the user chose another one.

    This process must not have loaded Arrow yet. Processes that it starts inherit the choice.
    """
    environment.setdefault(*ARROW_ALLOCATOR)


def release_memory() -> None:
    """Return freed memory to the system, as far as its allocators can.

    Spark keeps the workers of one job for the next, and starts others for SQL beside them.
    """
    import pyarrow as pa  # noqa: PLC0415 - `choose_allocator` comes before, and help needs no Arrow

    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    """Return the function of the GNU C library, None where there is another one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
