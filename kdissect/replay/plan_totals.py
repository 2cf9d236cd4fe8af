"""The sums of a plan: what becomes of all requests, counted for many of one shape at a time.

In: what becomes of a request, and for how many it stands (`count`). Out: counts by disposition, API, reason
and version, and the indices of those that would be sent.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from kdissect.array_types import Int64s
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.load.known_requests import AlikeGroups
from kdissect.replay.load.replay_items import ReplayItem, ReplayItems
from kdissect.replay.load.request_table import ROWS_AT_ONCE
from kdissect.text import format_uuid

SENT, SKIPPED = 1, 2
MOST_IDS = 5  # of topic ids without a name that are listed
RATE_WINDOW_NS = 1_000_000_000


class PlanTotals:
    """Dispositions of all requests."""

    def __init__(self, requests: int) -> None:
        self._decided = bytearray(requests)  # SENT, SKIPPED, or 0 for what becomes of the first of its group
        self.count = 0  # how many requests the next one stands for
        self.dispositions: Counter[Disposition] = Counter()
        self.apis: dict[str, Counter[str]] = defaultdict(Counter)
        self.skipped: Counter[tuple[str, str, str]] = Counter()  # API, disposition, reason
        self.versions: Counter[tuple[str, int, int]] = Counter()  # API, captured, sent
        self.groups: set[str] = set()  # that requests name
        self.nameless_ids: Counter[bytes] = Counter()  # topic ids without a name
        self.sessions_ms: set[int] = set()  # session timeouts of members, as captured
        self.losses: Counter[str] = Counter()  # what conversions lose

    def add_skipped(self, item: ReplayItem, skip: SkipRequest) -> None:
        """Add requests that would be skipped; `item` is the first of them."""
        name, count = api_name(item.request.key), self.count
        self._decided[item.request.index] = SKIPPED
        self.dispositions[skip.bucket] += count
        self.apis[name].update({"captured": count, "skipped": count})
        self.skipped[name, skip.bucket.value, skip.reason] += count

    def add_sent(self, item: ReplayItem, version: int) -> None:
        """Add requests that would be sent in some version; `item` is the first of them."""
        name, captured, count = api_name(item.request.key), item.request.version or 0, self.count
        counts = self.apis[name]
        self._decided[item.request.index] = SENT
        self.dispositions[Disposition.ANSWERED] += count
        counts.update({"captured": count, "sent": count})
        counts["retries"] += 0  # until `sent` counts them
        if version != captured:
            counts["converted"] += count
            self.versions[name, captured, version] += count

    def add_notes(self, notes: Iterable[str]) -> None:
        """Add what was noted about the requests."""
        self.losses.update({note: self.count for note in notes if ", without " in note})

    def add_nameless(self, ids: Iterable[bytes]) -> None:
        """Add topic ids without a name that the requests have."""
        self.nameless_ids.update(dict.fromkeys(ids, self.count))

    def nameless(self) -> list[str]:
        """Return which topic ids need a name."""
        ids = self.nameless_ids
        if not ids:
            return []
        listed = [
            f"{format_uuid(identity)} ({count:,} requests)" for identity, count in ids.most_common(MOST_IDS)
        ]
        if len(ids) > MOST_IDS:
            listed.append(f"{len(ids) - MOST_IDS} others")
        return [f"topic ids without a name in the capture: {', '.join(listed)}; --topic-id ID=NAME names one"]

    def sent(self, groups: AlikeGroups, items: ReplayItems, retries: Iterable[int]) -> "array[int]":
        """Return the indices of all requests that would be sent, in order, and count retries among them."""
        groups.spread(self._decided)
        for index in retries:
            if self._decided[index] == SENT:
                self.apis[api_name(items[index].request.key)]["retries"] += 1
        indices, decided = array("i"), np.frombuffer(self._decided, np.uint8)
        for begin in range(0, len(decided), ROWS_AT_ONCE):
            found = begin + np.flatnonzero(decided[begin : begin + ROWS_AT_ONCE] == SENT)
            indices.frombytes(found.astype(np.int32).tobytes())
        return indices


class PeakRates:
    """The most requests and bytes of a second, from requests in the order in which they are due."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0
        self.all_bytes = 0
        self.last_ns = 0  # when the last one is due
        self._window = -1  # the second of the last ones, and what has come of it
        self._of_window = 0, 0

    def add(self, due_ns: Int64s, sizes: Int64s) -> None:
        """Add requests that are due after those that were added before."""
        if not len(due_ns):
            return
        self.last_ns, self.all_bytes = int(due_ns[-1]), self.all_bytes + int(sizes.sum())
        windows, places = np.unique(due_ns // RATE_WINDOW_NS, return_inverse=True)
        requests, byte_counts = np.bincount(places), np.bincount(places, sizes).astype(np.int64)
        if windows[0] == self._window:
            requests[0] += self._of_window[0]
            byte_counts[0] += self._of_window[1]
        self._window, self._of_window = int(windows[-1]), (int(requests[-1]), int(byte_counts[-1]))
        self.requests = max(self.requests, int(requests.max()))
        self.bytes = max(self.bytes, int(byte_counts.max()))
