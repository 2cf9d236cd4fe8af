"""Exchanges around a match: those before and after it on its connection, as `grep -B` and `-A` show lines.

In come all exchanges in order, each with whether it matches. Out go those to show, in this order: a match
comes behind the exchanges before it on its connection that were not shown yet. The exchanges that wait to
become context are bounded in bytes: the oldest is dropped first, and `dropped` counts it.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

from kdissect.exchanges.decoded import DecodedExchange

MOST_BYTES = 64 << 20  # of exchanges that may become context
EXCHANGE_BYTES = 600  # what one takes in memory beside its frames


class ShownExchange(NamedTuple):
    """An exchange to show."""

    decoded: DecodedExchange
    is_match: bool


class ContextWindow:
    """Memory of each connection; see the module's text for the rules."""

    def __init__(self, before: int, after: int, most_bytes: int = MOST_BYTES) -> None:
        self._before, self._after, self._most_bytes = before, after, most_bytes
        self._waiting: OrderedDict[int, deque[DecodedExchange]] = OrderedDict()  # the longest unused first
        self._after_left: dict[int, int] = {}
        self._held = 0
        self.dropped = 0

    @property
    def is_wanted(self) -> bool:
        """Return whether anything but matches is to be shown."""
        return bool(self._before or self._after)

    @property
    def is_open(self) -> bool:
        """Return whether exchanges after a match are still to come."""
        return bool(self._after_left)

    def add(self, decoded: DecodedExchange, is_match: bool) -> Iterator[ShownExchange]:
        """Yield what is to be shown because of this exchange."""
        connection = decoded.exchange.connection
        if is_match:
            for earlier in self._waiting.pop(connection, ()):
                self._held -= _size(earlier)
                yield ShownExchange(earlier, False)
            yield ShownExchange(decoded, True)
            if self._after:
                self._after_left[connection] = self._after
        elif connection in self._after_left:
            self._after_left[connection] -= 1
            if not self._after_left[connection]:
                del self._after_left[connection]
            yield ShownExchange(decoded, False)
        elif self._before:
            self._remember(decoded)

    def _remember(self, decoded: DecodedExchange) -> None:
        waiting = self._waiting.setdefault(decoded.exchange.connection, deque())
        self._waiting.move_to_end(decoded.exchange.connection)
        waiting.append(decoded)
        self._held += _size(decoded)
        if len(waiting) > self._before:
            self._held -= _size(waiting.popleft())
        while self._held > self._most_bytes:
            connection, oldest = next(iter(self._waiting.items()))
            self._held -= _size(oldest.popleft())
            self.dropped += 1
            if not oldest:
                del self._waiting[connection]


def _size(decoded: DecodedExchange) -> int:
    frames = (decoded.exchange.request, decoded.exchange.response)
    return EXCHANGE_BYTES + sum(len(frame.data) for frame in frames if frame)
