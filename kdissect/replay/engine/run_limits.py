"""Limits of a pass, and the signal that ends it in all processes of a run.

The limits are rates, requests in flight, connections, bytes, duration, and the share of failures. In: the
caps and the circuit breaker of the settings, and what the player reports about each request. Out:
`may_send`, which returns what the next request of a connection has to wait for, and `reason_to_stop`, which
returns why the pass must end. Times are ns on the clock of the run.

The circuit breaker judges by the last ten seconds, in steps of a tenth of a second. Only errors that the
capture did not have count.

The stop signal is a page of memory that the processes share, since nothing else reaches a process that is
busy sending without waiting for it. The first one that stops is the one whose reason counts.
"""

import mmap
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from kdissect.replay.engine.connection_queue import ConnectionQueue
from kdissect.replay.net.pool_counters import PoolCounters
from kdissect.replay.settings import Breaker, Caps

SIZE = 1024  # bytes, with two for the length of the text


class StopSignal:
    """To be made before the processes are forked."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE)  # length (2 bytes), then the reason in UTF-8

    def give(self, reason: str) -> None:
        """Have all processes stop. The first reason stays."""
        if not self.reason:
            text = reason.encode()[: SIZE - 2]
            self._memory[2 : 2 + len(text)] = text
            self._memory[:2] = len(text).to_bytes(2, "big")

    @property
    def reason(self) -> str:
        """Return the reason why all processes must stop; "" if they need not."""
        memory = self._memory
        if memory[:2] == b"\0\0":
            return ""
        return memory[2 : 2 + int.from_bytes(memory[:2], "big")].decode(errors="replace")


IN_FLIGHT_CAP, CONNECTION_CAP, RATE_CAP = "in-flight cap", "connection cap", "rate cap"  # why a request waits
WINDOW_NS, STEP_NS = 10_000_000_000, 100_000_000


class Wait(NamedTuple):
    """Why a request may not be sent now, and until when; None: until another request or connection ends."""

    cause: str
    until_ns: int | None = None


IN_FLIGHT_WAIT, CONNECTION_WAIT = Wait(IN_FLIGHT_CAP), Wait(CONNECTION_CAP)


class RecentEnds(NamedTuple):
    """How the requests of the last ten seconds ended."""

    requests: int
    errors: int  # that the capture did not have
    throttled: int

    def reason_to_stop(self, settings: Breaker) -> str:
        """Return why a run must end after this, "" if it may go on."""
        if self.requests < settings.least_answers:
            return ""
        if self.errors > settings.error_share * self.requests:
            return f"{self.errors} of the last {self.requests} requests failed that did not in the capture"
        if self.throttled > settings.throttled_share * self.requests:
            return f"the target throttled {self.throttled} of the last {self.requests} requests"
        return ""


class RunLimits:
    """The limits of one process, and how near to them its pass is."""

    def __init__(self, caps: Caps, breaker: Breaker, stop_signal: StopSignal | None = None) -> None:
        self.peak_in_flight = self.peak_connections = 0
        self._caps = caps
        self._breaker = _CircuitBreaker(breaker)
        self.note = self._breaker.note
        self._stop_signal = stop_signal
        self.in_flight = 0  # captured requests
        self._connections = 0  # captured connections that are open
        self._sent_bytes = 0  # of captured requests
        self._free_ns = 0  # when the rates allow the next request
        self._ns_per_request = 1e9 / caps.requests_per_second if caps.requests_per_second else 0.0
        self._ns_per_byte = 1e9 / caps.bytes_per_second if caps.bytes_per_second else 0.0
        self._rated = bool(self._ns_per_request or self._ns_per_byte)

    @property
    def caps_connections(self) -> bool:
        """Return whether connections may have to wait for others to end."""
        return self._caps.connections is not None

    def may_send(self, queue: ConnectionQueue, now_ns: int) -> Wait | None:
        """Return what the head of a queue has to wait for; None if it may be sent."""
        if queue.in_flight >= queue.most_in_flight:
            return IN_FLIGHT_WAIT
        most = self._caps.connections
        if most is not None and not queue.open and self._connections >= most:
            return CONNECTION_WAIT
        if self._free_ns > now_ns:
            return Wait(RATE_CAP, self._free_ns)
        return None

    def begin(self, queue: ConnectionQueue, size: int, now_ns: int) -> None:
        """Note that a captured request of so many bytes begins."""
        if not queue.open:
            queue.open = True
            self._connections += 1
            self.peak_connections = max(self.peak_connections, self._connections)
        queue.in_flight += 1
        in_flight = self.in_flight = self.in_flight + 1
        self.peak_in_flight = max(self.peak_in_flight, in_flight)
        self._sent_bytes += size
        if self._rated:
            wait_ns = max(self._ns_per_request, self._ns_per_byte * size)
            self._free_ns = max(self._free_ns, now_ns) + int(wait_ns)

    def end(self, queue: ConnectionQueue) -> None:
        """Note that a captured request has ended."""
        queue.in_flight -= 1
        self.in_flight -= 1

    def close(self, queue: ConnectionQueue) -> None:
        """Note that all requests of a connection have ended."""
        queue.open = False
        self._connections -= 1

    def recent(self, now_ns: int) -> "RecentEnds":
        """Return how the requests of the last ten seconds ended."""
        return self._breaker.recent(now_ns)

    def stop_others(self, reason: str) -> None:
        """Have the other processes of the run stop too."""
        if self._stop_signal is not None:
            self._stop_signal.give(reason)

    def reason_to_stop(self, now_ns: int, elapsed_ns: int, behind_ns: int, connections: PoolCounters) -> str:
        """Return why the pass must end, "" if it may go on.

        `elapsed_ns` is the time since its start, `behind_ns` how late the replayer is by its own schedule,
        and `connections` has how many the target has refused one after another.
        """
        caps = self._caps
        reason = self._breaker.verdict(now_ns, behind_ns, connections)
        if not reason and self._stop_signal is not None:
            reason = self._stop_signal.reason
        if not reason and caps.duration_s is not None and elapsed_ns > caps.duration_s * 1e9:
            reason = f"--max-duration {caps.duration_s:g}s is over"
        if not reason and caps.bytes_in_all is not None and self._sent_bytes >= caps.bytes_in_all:
            reason = f"--max-bytes {caps.bytes_in_all:,} are sent"
        return reason


@dataclass(slots=True)
class _Step:
    """How requests ended in some time."""

    begin_ns: int
    requests: int = 0
    errors: int = 0
    throttled: int = 0

    def subtract(self, other: "_Step") -> None:
        self.requests -= other.requests
        self.errors -= other.errors
        self.throttled -= other.throttled


class _CircuitBreaker:
    """How the requests of the last ten seconds ended, and whether that is good enough."""

    def __init__(self, settings: Breaker) -> None:
        self._settings = settings
        self._last = _Step(-STEP_NS)
        self._steps: deque[_Step] = deque()
        self._sum = _Step(0)  # of these steps

    def note(self, now_ns: int, error: bool, throttled: bool, requests: int = 1) -> None:
        """Note how requests ended.

        With an error that the capture did not have, or throttled by the target.
        """
        step = self._last
        if now_ns - step.begin_ns >= STEP_NS:
            step = self._last = _Step(now_ns)
            self._steps.append(step)
        recent = self._sum
        step.requests += requests
        recent.requests += requests
        if error:
            step.errors += requests
            recent.errors += requests
        if throttled:
            step.throttled += requests
            recent.throttled += requests

    def recent(self, now_ns: int) -> RecentEnds:
        """Return how the requests of the last ten seconds ended."""
        steps, recent = self._steps, self._sum
        while steps and steps[0].begin_ns < now_ns - WINDOW_NS:
            recent.subtract(steps.popleft())
        return RecentEnds(recent.requests, recent.errors, recent.throttled)

    def verdict(self, now_ns: int, behind_ns: int, connections: PoolCounters) -> str:
        """Return why the pass must end, "" if it may go on."""
        settings = self._settings
        if connections.refused_in_a_row >= settings.refusals:
            return (
                f"{settings.refusals} connections in a row were refused, "
                f"the last one by {connections.last_refusal}"
            )
        reason = self.recent(now_ns).reason_to_stop(settings)
        if not reason and behind_ns > settings.lag_s * 1e9:
            reason = f"the replayer is {behind_ns / 1e9:.0f} s behind its own schedule"
        return reason
