"""What a worker tells the driver while it sends: which requests have ended and how, and the last ten seconds.

It stands where a process of one machine has its `CrashJournal`: the driver knows of each request that ended
up to half a second before a worker is lost. A report has two numbers for each request, compressed: its place
in the capture, and the number of its disposition.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

from kdissect.replay.engine.pass_results import COLUMNS, ResultTable
from kdissect.replay.engine.player import Player
from kdissect.replay.machines.run_messages import FEED_NS, MessageKind
from kdissect.replay.machines.worker_link import DriverLink

QUICK = 1  # level of compression


class ProgressFeed:
    """Reports on one pass; it is written to as to a journal."""

    def __init__(self, link: DriverLink) -> None:
        self._link = link
        self._written = 0  # results
        self.due_ns = 0  # when to report next, on the clock of the run

    def write(self, player: Player, start_ns: int, start_wall_ns: int) -> None:  # noqa: ARG002 - as a journal
        """Report what has ended since the last time."""
        self.due_ns = player.pool.now_ns + FEED_NS
        body = self._new(player.results)
        self._link.send(MessageKind.PROGRESS, body, recent=list(player.recent))

    def end(self, results: ResultTable) -> None:
        """Report what has ended since, of all results."""
        self._link.send(MessageKind.PROGRESS, self._new(results), recent=[0, 0, 0])

    def _new(self, results: ResultTable) -> bytes:
        part = results.since(self._written)
        self._written += len(part)
        return packed_endings(part)


def packed_endings(results: ResultTable) -> bytes:
    """Return place and disposition of each result."""
    rows = np.frombuffer(bytes(results.rows), np.int64).reshape(-1, COLUMNS)
    return zlib.compress(np.ascontiguousarray(rows[:, :2]).tobytes(), QUICK)


def unpacked_endings(body: bytes) -> NDArray[np.int64]:
    """Return a row for each result: place and disposition."""
    return np.frombuffer(zlib.decompress(body), np.int64).reshape(-1, 2)
