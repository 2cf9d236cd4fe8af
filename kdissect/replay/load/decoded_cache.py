"""Captured messages for the handlers: decoded before the clock starts, and kept in the spool.

Every request is decoded once, when it is loaded. `marshal` reads a tree back several times faster than the
codec reads a frame. Large requests, which are records and not structure, are decoded when their turn comes:
kept twice they would cost more than they save.
"""

import marshal
from array import array
from collections.abc import Callable

import numpy as np

from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.replay.effects import UnreadableBody
from kdissect.replay.load.request_table import Int32s, Request
from kdissect.replay.load.spool import Spool, SpoolSlot
from kdissect.replay.rewrite.names import Tree
from kdissect.streams.flow_state import Int64s

MOST_BYTES = 4096  # of a frame
MOST_REPEATED = 1 << 11  # bodies
WINDOW_BYTES = 1 << 16  # are read at once: bodies lie in the order in which most of them are asked for


class DecodedCache:
    """The bodies of all requests, by their number in the order of the capture."""

    def __init__(self) -> None:
        self._at: array[int] = array("q")  # -1: none is kept
        self._sizes: array[int] = array("i")
        self._window, self._begin = b"", 0
        self._repeated: dict[int, bytes] = {}  # bodies of many requests, by position

    def make_room(self, count: int) -> None:
        """Have a place for each of so many requests."""
        self._at, self._sizes = array("q", [-1]) * count, array("i", [0]) * count

    def put(self, index: int, body: Tree | None, frame: SpoolSlot, spool: Spool) -> None:
        """Keep the body of a request."""
        if body is not None and frame.size <= MOST_BYTES:
            self._at[index], self._sizes[index] = spool.put(marshal.dumps(body))

    def copy(self, indices: Int64s, sources: Int64s | Int32s) -> None:
        """Keep for some requests the bodies of others, which are equal."""
        for column in (self._at, self._sizes):
            values = np.frombuffer(column, column.typecode)
            values[indices] = values[sources]

    def get(self, index: int, read: Callable[[SpoolSlot], bytes | None]) -> Tree | None:
        """Return a copy of a body, which the caller may change; None if none was kept."""
        at = self._at[index]
        if at < 0:
            return None
        begin = at - self._begin
        if begin < 0:
            known = self._repeated.get(at)
            if known is None:
                if len(self._repeated) >= MOST_REPEATED:
                    self._repeated.clear()
                known = self._repeated[at] = read(SpoolSlot(at, self._sizes[index])) or b""
            repeated: Tree = marshal.loads(known)  # noqa: S302 - our own file
            return repeated
        if begin > len(self._window) - self._sizes[index]:
            self._window, self._begin, begin = read(SpoolSlot(at, WINDOW_BYTES)) or b"", at, 0
        data = memoryview(self._window)[begin : begin + self._sizes[index]]
        tree: Tree = marshal.loads(data)  # noqa: S302 - our own file
        return tree


class CapturedMessages:
    """Requests and responses as captured, decoded. `frame` reads a captured frame from the spool."""

    def __init__(self, cache: DecodedCache, frame: Callable[[SpoolSlot | None], bytes | None]) -> None:
        self._cache, self.frame = cache, frame

    def request(self, request: Request) -> Tree:
        """Return the body of a request, which the caller may change; empty for one that cannot be decoded."""
        body = self._cache.get(request.index, self.frame)
        return decode_request(self.frame(request.frame) or b"").body or {} if body is None else body

    def response(self, request: Request) -> Tree:
        """Return the body of the captured response.

        An `UnreadableBody` if it is missing or cannot be decoded.
        """
        frame = self.frame(request.response) if request.response_complete else None
        if not frame:
            return UnreadableBody()
        decoded = decode_response(frame, request.key, request.version or 0, strict=True)
        return UnreadableBody() if decoded.body is None or decoded.fault is not None else decoded.body
