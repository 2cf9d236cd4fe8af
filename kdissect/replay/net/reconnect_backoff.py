"""The pause before a connection that could not be made is tried again.

Clients pause, too: Java's wait for `reconnect.backoff.ms`, twice as long after each further failure, up to
`reconnect.backoff.max.ms` (KIP-144). Without a pause each request to a broker that is down would fail within
a millisecond, and a connection would be through with hundreds of them before the broker is back.
"""

from collections.abc import Hashable

FIRST_NS, LONGEST_NS = 50_000_000, 1_000_000_000
"""The defaults of Java's clients."""


class ReconnectBackoff:
    """The connections, by owner and node, that could not be made. Times are ns on the clock of the run."""

    def __init__(self) -> None:
        self._failed: dict[tuple[Hashable, int], tuple[int, int]] = {}  # the last pause, and its end

    def failed(self, owner: Hashable, node: int, now_ns: int) -> None:
        """Note that a connection could not be made."""
        last_ns, _ = self._failed.get((owner, node), (0, 0))
        pause_ns = min(2 * last_ns or FIRST_NS, LONGEST_NS)
        self._failed[owner, node] = pause_ns, now_ns + pause_ns

    def made(self, owner: Hashable, node: int) -> None:
        """Note that a connection was made."""
        self._failed.pop((owner, node), None)

    def end_ns(self, owner: Hashable, node: int) -> int:
        """Return when a connection may be tried again; 0 if the last one was made, or none was tried."""
        return self._failed.get((owner, node), (0, 0))[1]
