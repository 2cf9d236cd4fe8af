"""Progress of a fuzzing process, in a file that is mapped into memory: it outlives a crash or a kill.

The layout is: executions, processor time in µs, inputs kept for new coverage, size of the present case, and
the case itself. The size is 0 between cases, so a process that died within one left it there.
"""

import mmap
import struct
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

FIGURES = struct.Struct("<QQQQ")
LARGEST_CASE = 1 << 20


class Done(NamedTuple):
    """Work done by the end, and the case that was being read then; empty if there was none."""

    executions: int
    processor_s: float
    new_coverage: int
    case: bytes


class Progress:
    """The file of one process, which writes it."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(FIGURES.size + LARGEST_CASE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.executions = 0
        self.new_coverage = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._map.close()

    def begin(self, raw: bytes) -> None:
        """Note the case that is read next."""
        kept = raw[:LARGEST_CASE]
        self._map[FIGURES.size : FIGURES.size + len(kept)] = kept
        FIGURES.pack_into(self._map, 0, *FIGURES.unpack_from(self._map)[:3], len(kept))

    def end(self, processor_s: float) -> None:
        """Count the case: `processor_s` is the time of all cases so far."""
        self.executions += 1
        FIGURES.pack_into(self._map, 0, self.executions, int(processor_s * 1e6), self.new_coverage, 0)


def read_progress(path: Path) -> Done:
    """Return what the process of a file has done; nothing if it did not get as far as its first case.

    The file is empty between its making and its first figures.
    """
    data = path.read_bytes() if path.exists() else b""
    if len(data) < FIGURES.size:
        return Done(0, 0.0, 0, b"")
    executions, microseconds, new_coverage, size = FIGURES.unpack_from(data)
    return Done(executions, microseconds / 1e6, new_coverage, data[FIGURES.size : FIGURES.size + size])
