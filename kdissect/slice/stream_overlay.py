"""Replacements for the bytes of streams: anonymized frames by connection, end and position.

In come frames in any order, each with its position in its stream. Out go the bytes of any range of a stream;
bytes that belong to no frame are BLANK, so nothing that was captured is ever returned. The bytes wait on
disk; memory holds three numbers for each frame.

The plaintext of a TLS connection is a stream of its own. `PlainParts` keeps which packet brought which range
of it.
"""

import os
import tempfile
from array import array
from typing import IO, NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.slice.blank_records import BLANK

LENGTH_BYTES = 4  # of the length in front of a frame
Stream = tuple[int, int]  # row of a connection, and 0 for bytes from end A, 1 for those from B


class StreamRange(NamedTuple):
    """A range of a stream."""

    start: int
    length: int


class StreamOverlay:
    """The frames of streams; `close` removes them from disk."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open until close()
        self._size = 0
        self._entries: dict[Stream, array[int]] = {}
        self._sorted: dict[Stream, Int64s] = {}

    def add(self, stream: Stream, position: int, size: int, data: bytes) -> None:
        """Add a frame: the position of its length prefix, its size on the wire, and its captured bytes."""
        framed = size.to_bytes(LENGTH_BYTES, "big", signed=True) + data
        self._file.write(framed)
        self._entries.setdefault(stream, array("q")).extend((position, len(framed), self._size))
        self._size += len(framed)
        self._sorted.pop(stream, None)

    def read(self, stream: Stream, start: int, length: int) -> bytes:
        """Return the bytes of a range of a stream."""
        out = bytearray(BLANK * length)
        frames = self._frames(stream)
        first = max(0, int(np.searchsorted(frames[:, 0], start, "right")) - 1) if len(frames) else 0
        for position, size, offset in frames[first:]:
            if position >= start + length:
                break
            low, high = max(start, position), min(start + length, position + size)
            if low < high:
                part = os.pread(self._file.fileno(), int(high - low), int(offset + low - position))
                out[low - start : high - start] = part
        return bytes(out)

    def close(self) -> None:
        """Remove the frames."""
        self._file.close()

    def _frames(self, stream: Stream) -> Int64s:
        found = self._sorted.get(stream)
        if found is None:
            self._file.flush()
            rows = np.array(self._entries.get(stream, ()), np.int64).reshape(-1, 3)
            found = self._sorted[stream] = rows[np.argsort(rows[:, 0], kind="stable")]
        return found


class PlainParts:
    """Which packet brought which range of the plaintext of a TLS connection."""

    def __init__(self) -> None:
        self._parts: dict[int, array[int]] = {}  # by row of the connection: packet, side, start, length
        self._ends: dict[Stream, int] = {}
        self._by_packet: dict[int, Int64s] = {}

    def add(self, connection: int, side: int, packet: int, length: int, is_there: bool) -> None:
        """Add the plaintext of a record, in the order of its stream; one that is not there leaves a gap."""
        start = self._ends.get((connection, side), 0)
        self._ends[connection, side] = start + length
        parts = self._parts.setdefault(connection, array("q"))
        if is_there:
            parts.extend((packet, side, start, length))

    def is_open(self, connection: int) -> bool:
        """Return whether anything of a connection was decrypted."""
        return connection in self._parts

    def of(self, connection: int, side: int, packet: int) -> StreamRange | None:
        """Return the range of the plaintext from one end that a packet brought."""
        rows = self._by_packet.get(connection)
        if rows is None:
            rows = np.array(self._parts[connection], np.int64).reshape(-1, 4)
            rows = self._by_packet[connection] = rows[np.argsort(rows[:, 0], kind="stable")]
        low, high = np.searchsorted(rows[:, 0], (packet, packet + 1))
        own = rows[low:high]
        own = own[own[:, 1] == side]
        if not len(own):
            return None
        start = int(own[:, 2].min())
        return StreamRange(start, int((own[:, 2] + own[:, 3]).max()) - start)
