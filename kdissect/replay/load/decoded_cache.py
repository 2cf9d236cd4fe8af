"""Decoded requests that wait on the shelf: `marshal` reads a tree back several times faster than the codec reads a frame.

Every request is decoded once, when it is looked at, so its course need not do that again while the clock runs. Large ones, which
are records and not structure, are decoded when their turn comes: kept twice they would cost more than they save.
"""

import marshal
from array import array
from collections.abc import Callable

from kdissect.protocol.codec.messages import decode_request
from kdissect.replay.load.spool import Spool, SpoolSlot
from kdissect.replay.rewrite.roles import Tree

MOST_BYTES = 4096  # of a frame
WINDOW = 1 << 16  # is read at once: bodies lie in the order in which most of them are asked for


class Bodies:
    """The bodies of all requests, by their number in the order of the capture."""

    def __init__(self) -> None:
        self._at: array[int] = array("q")  # -1: none is kept
        self._sizes: array[int] = array("i")
        self._window, self._begin = b"", 0

    def keep(self, body: Tree | None, frame: SpoolSlot, shelf: Spool) -> None:
        """Keep the next request's."""
        if body is None or frame.size > MOST_BYTES:
            self._at.append(-1)
            self._sizes.append(0)
        else:
            place = shelf.put(marshal.dumps(body))
            self._at.append(place.at)
            self._sizes.append(place.size)

    def get(self, index: int, frame: SpoolSlot, read: Callable[[SpoolSlot], bytes | None]) -> Tree:
        """Give a copy of one, for whoever asks to change; empty for one that makes no sense."""
        at = self._at[index]
        if at < 0:
            return decode_request(read(frame) or b"").body or {}
        begin = at - self._begin
        if not 0 <= begin <= len(self._window) - self._sizes[index]:
            self._window, self._begin, begin = read(SpoolSlot(at, WINDOW)) or b"", at, 0
        tree: Tree = marshal.loads(memoryview(self._window)[begin : begin + self._sizes[index]])  # noqa: S302 - our own file
        return tree
