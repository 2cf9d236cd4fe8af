"""Passes of `dump` and `slice` over the splits of captures: progress, and where the first Ctrl-C ended them.

These commands read files more than once, in this process, split by split. Before each split the function that
`begin` returns shows how far the pass is, and tells whether it ends there.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kdissect.bytes_progress import BytesProgress
from kdissect.cli.interrupt import only_read

if TYPE_CHECKING:
    from kdissect.capture.index.splits import EndsBefore, Split


class ReadingPasses:
    """The passes over some splits, in the order of their names; the last split of a pass is its end."""

    def __init__(self, splits: "Sequence[Split]", *names: str, quiet: bool = False) -> None:
        from kdissect.capture.index.index_prefix import split_bytes

        self._size = split_bytes(splits)
        self.progress = BytesProgress(*names, quiet=quiet)
        self._read: list[int] = []  # bytes by pass

    def begin(
        self, splits: "Sequence[Split]", is_stopped: Callable[[], bool], is_shown: bool = True
    ) -> "EndsBefore":
        """Begin the next pass, over splits that the one before has read, until `is_stopped`.

        Show no progress unless `is_shown`.
        """
        from kdissect.capture.index.index_prefix import split_bytes

        number, size = len(self._read), split_bytes(splits)
        self._read.append(0)

        def ends_before(split: "Split") -> bool:
            if is_stopped():
                return True
            if is_shown:
                self.progress(self._read[number], size, number)
            self._read[number] += split.stop - split.start
            return False

        return ends_before

    @property
    def interruption(self) -> str:
        """Return how much all passes have read, if one was ended before the last split; else nothing."""
        read = min(self._read, default=self._size)
        return only_read(read, self._size) if read < self._size else ""
