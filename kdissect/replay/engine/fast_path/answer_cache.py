"""Responses that were decoded before and were good, recognized by their bytes.

Most are the same as the one before.
"""

from kdissect.replay.effects import Part

LARGEST = 16 << 10  # bytes of a response that is remembered
MOST = 4 << 20  # bytes of all of them
CORRELATION_ID = 4  # bytes at the beginning of a frame, which differ
NOTHING: frozenset[bytes] = frozenset()


class AnswerCache:
    """Responses of the target without an error and without a throttle time, by API and version."""

    def __init__(self) -> None:
        self._known: dict[int, set[bytes]] = {}
        self._bytes = 0

    def knows(self, part: Part, frame: bytes) -> bool:
        """Return whether a request of this kind was answered with these bytes before."""
        return frame[CORRELATION_ID:] in self._known.get(part.key << 16 | part.version, NOTHING)

    def add(self, part: Part, frame: bytes) -> None:
        """Remember a good response.

        If there are too many, all are forgotten, and those that still come are added anew.
        """
        if len(frame) > LARGEST:
            return
        self._bytes += len(frame)
        if self._bytes > MOST:
            self._known.clear()
            self._bytes = len(frame)
        self._known.setdefault(part.key << 16 | part.version, set()).add(frame[CORRELATION_ID:])
