"""How this process and Spark's workers hold memory: which allocator Arrow uses, and when freed memory goes.

PyArrow brings allocators of its own, which keep freed memory for the next column. The columns of a dissection
differ in size, so each worker kept 100 MiB that nothing used. The allocator of the system returns large
blocks at once.
"""

import ctypes
import gc
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache
from typing import Any

ARROW_ALLOCATOR = ("ARROW_DEFAULT_MEMORY_POOL", "system")
"""The variable that Arrow reads when it is loaded, and the value that kdissect gives it."""

ARENA_MAX = -8  # of mallopt(3)
COLLECT_AFTER = 50_000
"""Objects that Python makes before it looks for garbage among them."""


def choose_allocator(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have Arrow use the allocator of the system, unless the user chose another one.

    This process must not have loaded Arrow yet. Processes that it starts inherit the choice.
    """
    environment.setdefault(*ARROW_ALLOCATOR)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Look for no cycles of garbage meanwhile.

    Loading modules and making a report leave hardly any. A report of 33,402 connections takes 2.9 s instead
    of 3.2 s, with the same peak of memory, and a small capture 0.6 s less of 4.2.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def collect_seldom() -> None:
    """Look for cycles of garbage after every 50,000 objects instead of 700, in a process that is a command's.

    Processes that are forked do the same.
    """
    gc.set_threshold(COLLECT_AFTER)


def share_arena() -> None:
    """Have threads that begin from now on allocate where the main thread does, in a process of a command.

    The GNU C library gives each thread an arena, and keeps what is free at the end of it, 28 MB in a process
    whose threads have indexed 100,000 connections.
    """
    mallopt = _libc_function("mallopt")
    if mallopt is not None:
        mallopt(ARENA_MAX, 1)


@contextmanager
def loading() -> Iterator[None]:
    """Load modules with the collector paused; in a command it never looks at what exists afterwards.

    Spark, Numba and Arrow are some hundred thousand objects, none of which is garbage. To look at them takes
    0.1 s, and copies the memory that forked processes share.
    """
    with collector_paused():
        yield
        if gc.get_threshold()[0] == COLLECT_AFTER:
            gc.freeze()


def release_memory() -> None:
    """Return freed memory to the system, as far as its allocators can.

    Spark keeps the workers of one job for the next, and starts others for SQL beside them.
    """
    import pyarrow as pa  # noqa: PLC0415 - `choose_allocator` comes before, and help needs no Arrow

    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = _libc_function("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _libc_function(name: str) -> Any:
    """Return a function of the GNU C library, None where there is another one."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
