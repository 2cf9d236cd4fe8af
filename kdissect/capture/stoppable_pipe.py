"""A pipe that is read until it ends, or until somebody wishes to end the reading."""

import os
import select
from collections.abc import Callable
from typing import Protocol

LOOK_S = 0.25
"""Longest wait without a look at the wish.

A signal that comes just before the wait begins, or that the kernel gives to another thread, does not end the
wait: Python only notes it, until the main thread goes on.
"""


class ByteSource(Protocol):
    """Source of bytes that come one after the other."""

    def read(self, size: int, /) -> bytes:
        """Return some bytes, at most `size`, as soon as there are any; none at the end."""


class StoppablePipe:
    """The bytes of an open pipe until it ends, or until `is_stopped`."""

    def __init__(self, descriptor: int, is_stopped: Callable[[], bool]) -> None:
        self._descriptor, self._is_stopped = descriptor, is_stopped

    def read(self, size: int) -> bytes:
        """Return the bytes that are there, at most `size`, and wait for the first of them."""
        while not self._is_stopped():
            ready, _, _ = select.select([self._descriptor], [], [], LOOK_S)
            if ready:
                return os.read(self._descriptor, size)
        return b""
