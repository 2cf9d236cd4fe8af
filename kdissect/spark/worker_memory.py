"""Memory of workers that have done a task: given back to the system while they wait for another one.

Spark keeps the workers of one job for the next, and starts others for SQL beside them. Memory that a
dissection has freed stays in the pools of Arrow and of the C library: about 100 MiB a worker.
"""

import ctypes
import gc
from functools import cache
from typing import Any

import pyarrow as pa


def release_memory() -> None:
    """Return freed memory to the system, as far as its allocators can."""
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
