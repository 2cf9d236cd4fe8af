"""The circuit breaker: whether a run goes well, by what the last ten seconds brought."""

from collections import deque
from dataclasses import dataclass

from kdissect.replay.linking.switchboard import Switchboard
from kdissect.replay.settings import Breaker

WINDOW_NS, STEP_NS = 10_000_000_000, 100_000_000


@dataclass(slots=True)
class _Step:
    """What a tenth of a second brought."""

    begin_ns: int
    requests: int = 0
    errors: int = 0
    throttled: int = 0


class Watch:
    """What the last requests came to."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._last = _Step(-STEP_NS)
        self._recent: deque[_Step] = deque()

    def note(self, now_ns: int, error: bool, throttled: bool, requests: int = 1) -> None:
        """Take in how requests ended: with an error that the capture did not have, with a throttle."""
        step = self._last
        if now_ns - step.begin_ns >= STEP_NS:
            step = self._last = _Step(now_ns)
            self._recent.append(step)
        step.requests += requests
        if error:
            step.errors += requests
        if throttled:
            step.throttled += requests

    def verdict(self, now_ns: int, board: Switchboard) -> str:
        """Say why the run must not go on; nothing if it may."""
        breaker, recent = self._breaker, self._recent
        while recent and recent[0].begin_ns < now_ns - WINDOW_NS:
            recent.popleft()
        if board.failure is not None:
            return str(board.failure)
        if board.tallies.refused_in_a_row >= breaker.refusals:
            return f"{breaker.refusals} connections in a row were refused"
        requests = sum(step.requests for step in recent)
        if requests >= breaker.least_answers:
            errors = sum(step.errors for step in recent)
            if errors > breaker.error_share * requests:
                return f"{errors} of the last {requests} requests failed that did not in the capture"
            throttled = sum(step.throttled for step in recent)
            if throttled > breaker.throttled_share * requests:
                return f"the target throttled {throttled} of the last {requests} requests"
        return ""
