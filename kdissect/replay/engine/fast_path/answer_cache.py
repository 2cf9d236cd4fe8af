"""Answers that were looked at and are good, known again by their bytes: most say the same as the one before."""

from kdissect.replay.effects import Part

LARGEST = 16 << 10  # bytes of an answer that is remembered
MOST = 4 << 20  # bytes of all of them
CORRELATION = 4  # bytes at the beginning of a frame, which differ
NOTHING: frozenset[bytes] = frozenset()


class AnswerCache:
    """What the target said before without an error, and without asking for silence."""

    def __init__(self) -> None:
        self._known: dict[int, set[bytes]] = {}
        self._bytes = 0

    def knows(self, part: Part, frame: bytes) -> bool:
        """Tell whether a request of this kind was answered like that before."""
        return frame[CORRELATION:] in self._known.get(part.key << 16 | part.version, NOTHING)

    def add(self, part: Part, frame: bytes) -> None:
        """Remember a good answer; when there are too many, all are forgotten, and those that still come are learnt anew."""
        if len(frame) > LARGEST:
            return
        self._bytes += len(frame)
        if self._bytes > MOST:
            self._known.clear()
            self._bytes = len(frame)
        self._known.setdefault(part.key << 16 | part.version, set()).add(frame[CORRELATION:])
