"""What the driver knows of the requests of one worker, and writes down if the worker is lost.

Each captured request is accounted for: those that had ended by the last report of the worker, with their
disposition and without anything else, and all others as not known. They are counted together by API, as the
requests of a run that was stopped are.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

from kdissect.dump.jsonl import json_line
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import DISPOSITIONS
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.machines.progress_feed import unpacked_endings


class PartLedger:
    """The requests of one worker in one pass, by their place in the capture."""

    def __init__(self, items: Sequence[ReplayItem]) -> None:
        self.items = items
        self._endings: dict[int, int] = {}

    def add(self, body: bytes) -> None:
        """Note a report of progress. Raise ValueError for one that no worker sends."""
        try:
            rows = unpacked_endings(body).tolist()
        except zlib.error as error:
            raise ValueError(str(error)) from None
        for index, code in rows:
            if not 0 <= code < len(DISPOSITIONS):
                raise ValueError(f"no disposition has the number {code}")
            self._endings[index] = code

    def __len__(self) -> int:
        """Return how many requests have ended, without those that are never sent."""
        return sum(item.request.index in self._endings for item in self.items if item.refusal is None)

    def lines(self, reason: str) -> Iterator[str]:
        """Yield all requests as lines of JSON, counted together, for a worker that was lost for a reason."""
        counted: Counter[tuple[int, str, str]] = Counter()
        for item in self.items:
            code = self._endings.get(item.request.index)
            if item.refusal is not None:
                disposition, why = item.refusal.bucket, item.refusal.reason
            elif code is None:
                disposition, why = Disposition.POLICY, f"nothing is known of it: {reason}"
            else:
                disposition, why = DISPOSITIONS[code], f"its result was lost: {reason}"
            counted[item.request.key, disposition.value, why] += 1
        for (key, bucket, why), count in counted.items():
            yield json_line({"requests": count, "api": api_name(key), "bucket": bucket, "reason": why})
