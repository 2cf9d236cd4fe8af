"""Numbers that several processes of one run note, and that any of them reads.

On one machine they lie in a file, on a cluster in the memory of the driver (see `served_numbers`). Each
number is appended in one write, so no number is lost or torn. Notes are hints for progress and for ending
early: errors of the file system are passed over.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Protocol

import numpy as np

NUMBER = Struct("<q")


class Numbers(Protocol):
    """Numbers in the order in which they were noted."""

    def append(self, number: int) -> None:
        """Note a number."""

    def numbers(self) -> list[int]:
        """Return all numbers; none if nobody has noted one, or if they cannot be read."""

    def first(self, number: int) -> int:
        """Note a number, unless there is one. Return the first number."""

    def forget(self) -> None:
        """Forget all numbers."""

    def clock_ns(self) -> int:
        """Return the time of a clock that all processes of the run share."""


@dataclass(frozen=True, slots=True)
class NumberLog:
    """The numbers in the file at `path`."""

    path: str

    def append(self, number: int) -> None:
        """Note a number."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return
        try:
            os.write(descriptor, NUMBER.pack(number))  # atomic: O_APPEND, and far below a page
        except OSError:
            pass
        finally:
            os.close(descriptor)

    def numbers(self) -> list[int]:
        """Return all numbers; none if nobody has noted one."""
        try:
            return list(map(int, np.fromfile(self.path, np.int64)))
        except OSError:
            return []

    def first(self, number: int) -> int:
        """Note a number, unless there is one. Return the first number."""
        draft = Path(f"{self.path}-{os.getpid()}")
        with suppress(OSError):
            draft.write_bytes(NUMBER.pack(number))
            os.link(draft, self.path)  # fails if another process was first
        with suppress(OSError):
            draft.unlink()
        return next(iter(self.numbers()), number)

    def forget(self) -> None:
        """Forget all numbers."""
        with suppress(OSError):
            os.unlink(self.path)

    def clock_ns(self) -> int:
        """Return the time of the monotonic clock of this machine."""
        return time.monotonic_ns()
