"""The circuit breaker: whether a run goes well, by what the last ten seconds brought."""

from collections import deque
from dataclasses import dataclass

from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import Breaker

WINDOW_NS, STEP_NS = 10_000_000_000, 100_000_000


@dataclass(slots=True)
class _Step:
    """What a tenth of a second brought."""

    begin_ns: int
    requests: int = 0
    errors: int = 0
    throttled: int = 0


class CircuitBreaker:
    """What the last requests came to."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._last = _Step(-STEP_NS)
        self._recent: deque[_Step] = deque()
        self._all = _Step(0)  # the sum of those

    def note(self, now_ns: int, error: bool, throttled: bool, requests: int = 1) -> None:
        """Take in how requests ended: with an error that the capture did not have, with a throttle."""
        step = self._last
        if now_ns - step.begin_ns >= STEP_NS:
            step = self._last = _Step(now_ns)
            self._recent.append(step)
        step.requests += requests
        self._all.requests += requests
        if error:
            step.errors += requests
            self._all.errors += requests
        if throttled:
            step.throttled += requests
            self._all.throttled += requests

    def verdict(self, now_ns: int, board: ConnectionPool) -> str:
        """Say why the run must not go on; nothing if it may."""
        breaker, recent, summed = self._breaker, self._recent, self._all
        while recent and recent[0].begin_ns < now_ns - WINDOW_NS:
            step = recent.popleft()
            summed.requests -= step.requests
            summed.errors -= step.errors
            summed.throttled -= step.throttled
        if board.failure is not None:
            return str(board.failure)
        if board.tallies.refused_in_a_row >= breaker.refusals:
            return f"{breaker.refusals} connections in a row were refused"
        requests, errors, throttled = summed.requests, summed.errors, summed.throttled
        if requests >= breaker.least_answers:
            if errors > breaker.error_share * requests:
                return f"{errors} of the last {requests} requests failed that did not in the capture"
            if throttled > breaker.throttled_share * requests:
                return f"the target throttled {throttled} of the last {requests} requests"
        return ""
