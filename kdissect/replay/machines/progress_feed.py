"""Progress that a worker reports to the driver: which requests have ended and how, and the last ten seconds.

It stands where a process of one machine has its `CrashJournal`: the driver knows of each request that ended
up to half a second before a worker is lost. A report has two numbers for each request, compressed: its
place in the capture, and the number of its disposition.

The driver notes these reports in a `PartLedger`, and writes it down if the worker is lost. Each captured
request is accounted for: those that had ended by the last report, with their disposition and without
anything else, and all others as not known. They are counted together by API, as the requests of a run that
was stopped are.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kdissect.dump.jsonl import json_line
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import DISPOSITION, DISPOSITIONS, INDEX, ResultTable
from kdissect.replay.engine.player import Player
from kdissect.replay.load.replay_items import ReplayItem, request_column, sent_mask
from kdissect.replay.machines.run_messages import FEED_NS, MessageKind
from kdissect.replay.machines.worker_link import DriverLink

QUICK = 1  # level of compression
NOTHING = -1  # in place of a disposition: nothing is known


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
    rows = np.stack([results.column(number) for number in (INDEX, DISPOSITION)], axis=1)
    return zlib.compress(rows.tobytes(), QUICK)


def unpacked_endings(body: bytes) -> NDArray[np.int64]:
    """Return a row for each result: place and disposition."""
    return np.frombuffer(zlib.decompress(body), np.int64).reshape(-1, 2)


class PartLedger:
    """The requests of one worker in one pass, by their place in the capture."""

    def __init__(self, items: Sequence[ReplayItem]) -> None:
        self.items = items
        self._indices = request_column(items, "index")
        self._codes = np.full(int(self._indices.max(initial=NOTHING)) + 1, NOTHING, np.int8)

    def add(self, body: bytes) -> None:
        """Note a report of progress. Raise ValueError for one that no worker sends."""
        try:
            rows = unpacked_endings(body)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        indices, codes = rows[:, 0], rows[:, 1]
        wrong = codes[(codes < 0) | (codes >= len(DISPOSITIONS))]
        if len(wrong):
            raise ValueError(f"no disposition has the number {wrong[0]}")
        own = (indices >= 0) & (indices < len(self._codes))
        self._codes[indices[own]] = codes[own]

    def __len__(self) -> int:
        """Return how many requests have ended, without those that are never sent."""
        return int(((self._codes[self._indices] != NOTHING) & sent_mask(self.items)).sum())

    def lines(self, reason: str) -> Iterator[str]:
        """Yield all requests as lines of JSON, counted together, for a worker that was lost for a reason."""
        counted: Counter[tuple[int, str, str]] = Counter()
        for item in self.items:
            code = int(self._codes[item.request.index])
            if item.refusal is not None:
                disposition, why = item.refusal.bucket, item.refusal.reason
            elif code == NOTHING:
                disposition, why = Disposition.POLICY, f"nothing is known of it: {reason}"
            else:
                disposition, why = DISPOSITIONS[code], f"its result was lost: {reason}"
            counted[item.request.key, disposition.value, why] += 1
        for (key, bucket, why), count in counted.items():
            yield json_line({"requests": count, "api": api_name(key), "bucket": bucket, "reason": why})
