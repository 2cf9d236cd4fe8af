"""Numbers that several processes of one machine note in a file, and that any of them reads.

Each number is appended in one write, so no number is lost or torn. Notes are hints for progress and for
ending early: errors of the file system are passed over.
"""

import os
from dataclasses import dataclass
from struct import Struct

import numpy as np

NUMBER = Struct("<q")


@dataclass(frozen=True, slots=True)
class NumberLog:
    """The numbers in the file at `path`, in the order in which they were noted."""

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
