"""The keys of one direction in the order of their use, and which record number comes next.

A record that opens tells its number. When records are missing, as many numbers are tried as may have been
used by them, from the lowest on, then the keys that come next: so a stream goes on behind a gap, or behind
early data that nobody can read. The trials that one session may cost are limited.
"""

from typing import NamedTuple

from kdissect.streams.tls.record_protection import Opened, Protection

SMALLEST_RECORD = 22  # bytes of a protected record with one byte in it
MOST_NUMBERS = 1 << 12  # that are tried for one record
MOST_TRIALS = 1 << 16  # that fail, in one direction


class Found(NamedTuple):
    """A record that was opened: what it held, and how many records under these keys were missed before it."""

    opened: Opened
    missed: int
    new_keys: bool  # it is the first that was opened under its keys, and not all under the keys before were


class Opener:
    """See the module's text."""

    __slots__ = ("_following", "_number", "_trials", "_unread", "protection")

    def __init__(self, protections: list[Protection]) -> None:
        self.protection, *self._following = protections
        self._number = 0
        self._unread = 0  # records since the last one that was opened
        self._trials = MOST_TRIALS

    def open(self, header: bytes, fragment: bytes, broken: int, gone: int) -> Found | None:
        """Open a record, before which `broken` records and `gone` bytes of other records are missing."""
        furthest = min(self._unread + broken + (gone + SMALLEST_RECORD - 1) // SMALLEST_RECORD, MOST_NUMBERS)
        for turn, protection in enumerate((self.protection, *self._following)):
            first = self._number if turn == 0 else 0
            for missed in range(furthest + 1):
                opened = protection.open(first + missed, header, fragment)
                if opened is not None:
                    if turn:
                        self._use(protection)
                    self._number = first + missed + 1
                    self._unread = 0
                    return Found(opened, missed, turn > 0)
                self._trials -= 1
                if self._trials < 0:
                    return None
        self._unread += 1
        return None

    @property
    def exhausted(self) -> bool:
        """Return whether too much was tried in vain."""
        return self._trials < 0

    def next_keys(self) -> None:
        """The sender goes on with the keys that follow, if they are known."""
        if self._following:
            self._use(self._following[0])

    def change(self, protection: Protection) -> None:
        """The sender goes on with keys that were agreed on just now."""
        self.protection, self._following = protection, []
        self._number = self._unread = 0

    def _use(self, protection: Protection) -> None:
        self._following = self._following[self._following.index(protection) + 1 :]
        self.protection = protection
        self._number = self._unread = 0
