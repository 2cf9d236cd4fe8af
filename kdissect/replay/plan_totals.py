"""The sums of a plan: what becomes of all requests, counted for many of one shape at a time.

In: what becomes of a request, and the requests for which it stands (`requests`). Out: counts by disposition,
API, reason and version, and the indices of those that would be sent.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

import numpy as np

from kdissect.protocol.schema.registry import api_name
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.streams.flow_state import Int64s


class PlanTotals:
    """Dispositions of all requests. Captured retries are counted by their indices."""

    def __init__(self, retries: Collection[int]) -> None:
        self._retries = set(retries)
        self._sent: list[Int64s] = []
        self.requests: Int64s = np.zeros(0, np.int64)  # those that are added next
        self.dispositions: Counter[Disposition] = Counter()
        self.apis: dict[str, Counter[str]] = defaultdict(Counter)
        self.skipped: Counter[tuple[str, str, str]] = Counter()  # API, disposition, reason
        self.versions: Counter[tuple[str, int, int]] = Counter()  # API, captured, sent
        self.groups: set[str] = set()  # that requests name
        self.nameless_ids: Counter[bytes] = Counter()  # topic ids without a name
        self.losses: Counter[str] = Counter()  # what conversions lose

    def add_skipped(self, item: ReplayItem, skip: SkipRequest) -> None:
        """Add requests that would be skipped; `item` is one of them."""
        name, count = api_name(item.request.key), len(self.requests)
        self.dispositions[skip.bucket] += count
        self.apis[name].update({"captured": count, "skipped": count})
        self.skipped[name, skip.bucket.value, skip.reason] += count

    def add_sent(self, item: ReplayItem, version: int) -> None:
        """Add requests that would be sent in some version; `item` is one of them."""
        name, captured, count = api_name(item.request.key), item.request.version or 0, len(self.requests)
        counts = self.apis[name]
        self.dispositions[Disposition.ANSWERED] += count
        counts.update({"captured": count, "sent": count})
        counts["retries"] += len(self._retries.intersection(self.requests.tolist())) if self._retries else 0
        if version != captured:
            counts["converted"] += count
            self.versions[name, captured, version] += count
        self._sent.append(self.requests)

    def add_notes(self, notes: Iterable[str]) -> None:
        """Add what was noted about the requests."""
        self.losses.update({note: len(self.requests) for note in notes if ", without " in note})

    def add_nameless(self, ids: Iterable[bytes]) -> None:
        """Add topic ids without a name that the requests have."""
        self.nameless_ids.update(dict.fromkeys(ids, len(self.requests)))

    def sent(self) -> "array[int]":
        """Return the indices of the requests that would be sent, in order."""
        indices = np.sort(np.concatenate([np.zeros(0, np.int64), *self._sent]))
        return array("i", indices.astype(np.int32).tobytes())
