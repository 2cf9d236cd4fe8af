"""Captured messages for the handlers: decoded before the clock starts, and kept in the spool.

Every request is decoded once, when it is loaded. `marshal` reads a tree back several times faster than the
codec reads a frame. Large requests, which are records and not structure, are decoded when their turn comes:
kept twice they would cost more than they save.
"""

import marshal
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.replay.effects import UnreadableBody
from kdissect.replay.load.request_table import Request
from kdissect.replay.load.spool import BLOCK_BITS, MOST_BLOCKS, Spool, SpoolSlot
from kdissect.replay.rewrite.names import Tree

MOST_BYTES = 4096  # of a frame
MOST_REPEATED = 1 << 11  # bodies
WINDOW_BYTES = 1 << 16  # are read at once: bodies lie in the order in which most of them are asked for


class DecodedCache:
    """The bodies of requests, by their number in the order of the capture.

    Requests without an own body have that of another one, if `like` names one to share.
    """

    def __init__(self) -> None:
        self._indices, self._at, self._sizes = array("i"), array("q"), array("i")  # of all that are kept
        self._like: Callable[[int], int] | None = None
        self._shared: frozenset[int] = frozenset()
        self._window, self._begin = b"", 0
        self._repeated: dict[int, bytes] = {}  # bodies of many requests, by position

    def put(self, index: int, body: Tree | None, frame: SpoolSlot, spool: Spool) -> None:
        """Keep the body of a request, which comes after those that are kept."""
        if body is not None and frame.size <= MOST_BYTES:
            at, size = spool.put(marshal.dumps(body))
            self._indices.append(index)
            self._at.append(at)
            self._sizes.append(size)

    def share(self, like: Callable[[int], int], shared: Iterable[int]) -> None:
        """Have requests without a body use that of the request that `like` returns for them.

        It must be among those in `shared`.
        """
        self._like, self._shared = like, frozenset(shared)

    def _place(self, index: int) -> int:
        """Return where the body of a request is noted, -1 if none is kept."""
        place = bisect_left(self._indices, index)
        if place < len(self._indices) and self._indices[place] == index:
            return place
        other = index if self._like is None else self._like(index)
        return self._place(other) if other != index and other in self._shared else -1

    def get(self, index: int, read: Callable[[SpoolSlot], bytes | None]) -> Tree | None:
        """Return a copy of a body, which the caller may change; None if none was kept."""
        place, indices = index, self._indices
        if index >= len(indices) or indices[index] != index:  # else all before it have a body, too
            place = self._place(index)
        if place < 0:
            return None
        at, size = self._at[place], self._sizes[place]
        begin = at - self._begin
        if begin < 0:
            known = self._repeated.get(at)
            if known is None:
                if len(self._repeated) >= MOST_REPEATED:
                    self._repeated.clear()
                known = self._repeated[at] = read(SpoolSlot(at, size)) or b""
            repeated: Tree = marshal.loads(known)  # noqa: S302 - our own file
            return repeated
        if begin > len(self._window) - size:
            self._window, self._begin, begin = read(SpoolSlot(at, WINDOW_BYTES)) or b"", at, 0
        data = memoryview(self._window)[begin : begin + size]
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

    def frames(self, positions: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """Return the frames at some positions, empty ones where the size is 0.

        Many lie in one block, so blocks are read. Some of them are kept: a response lies behind requests of
        other connections.
        """
        blocks: dict[int, bytes] = {}
        begin, block, found = 0, b"", []
        for at, size in zip(positions, sizes, strict=True):
            start = at - begin
            if start < 0 or start + size > len(block):
                number = at >> BLOCK_BITS
                begin = number << BLOCK_BITS
                block, start = blocks.get(number, b""), at - begin
                if not block and size:
                    if len(blocks) >= MOST_BLOCKS:
                        blocks.clear()
                    block = blocks[number] = self.frame(SpoolSlot(begin, 1 << BLOCK_BITS)) or b""
                if start + size > len(block):
                    found.append(self.frame(SpoolSlot(at, size)) or b"" if size else b"")
                    continue
            found.append(block[start : start + size] if size else b"")
        return found

    def response(self, request: Request) -> Tree:
        """Return the body of the captured response.

        An `UnreadableBody` if it is missing or cannot be decoded.
        """
        frame = self.frame(request.response) if request.response_complete else None
        if not frame:
            return UnreadableBody()
        decoded = decode_response(frame, request.key, request.version or 0, strict=True)
        return UnreadableBody() if decoded.body is None or decoded.fault is not None else decoded.body
