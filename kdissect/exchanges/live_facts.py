"""Facts in place of the prescan while a capture is still being written.

Names, addresses and mechanisms are those that have been read so far: a topic id that is named later is shown
as an id. Nobody knows how far back in time later packets reach, so an exchange has its turn when

- nothing that is unfinished began before it, or
- it began HOLD_NS before the latest packet: a request without a response holds up later ones no longer.

An exchange that ends after its turn comes late, with its own time.
"""

from collections.abc import Callable

from kdissect.exchanges.prescan import CollectedFacts

HOLD_NS = 2 * 10**9
"""How long unfinished exchanges hold up those that began after them."""


class LiveFacts(CollectedFacts):
    """Facts that are collected while the capture is read."""

    def __init__(self, latest_ns: Callable[[], int]) -> None:
        """`latest_ns` returns the time of the latest packet so far."""
        super().__init__()
        self._latest_ns = latest_ns

    def complete_ns(self, unfinished_ns: int) -> int:
        """Return the time before which no exchange is waited for.

        `unfinished_ns` is the earliest time of what is unfinished.
        """
        latest = self._latest_ns()
        return min(max(unfinished_ns, latest - HOLD_NS), latest)
