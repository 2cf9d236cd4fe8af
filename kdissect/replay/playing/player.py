"""Plays captured requests: one line for each captured connection, each request at its moment, none without an end.

A line keeps its order, and has no more in flight than its connection had in the capture. The next request of a line may begin
when the one before it has put its own frames on the wire; what that waits for (an id, a coordinator) holds the line up, and
is its reason for being late. Deadlines, caps and the circuit breaker bound everything.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kdissect.protocol.headers import decode_request
from kdissect.replay.accounting import Bucket
from kdissect.replay.courses import course_of
from kdissect.replay.courses.groups import leave_all
from kdissect.replay.courses.stage import Stage, first_error
from kdissect.replay.courses.transactions import abort_open
from kdissect.replay.linking.switchboard import Switchboard
from kdissect.replay.loading.items import Item, Loaded
from kdissect.replay.loading.shelf import Shelf
from kdissect.replay.playing.pace import Timetable, without_long_gaps
from kdissect.replay.playing.ready import HEED_EVERY, Ready, ready_course
from kdissect.replay.playing.results import Result, bucket_of
from kdissect.replay.rewriting.roles import Refused
from kdissect.replay.settings import Pace
from kdissect.replay.steps import Answer, Course, Errand, Gate

DRAIN_NS = 5_000_000_000  # what is in flight gets this long when a run is stopped
WINDOW_NS = 10_000_000_000
LATE_NS = 2_000_000  # timers of event loops count in ms
IN_FLIGHT, DEPENDENCY, RATE, SELF = "in-flight cap", "dependency", "rate cap", "self"


@dataclass(slots=True)
class Line:
    """One captured connection."""

    connection: int
    cap: int
    waiting: deque[Item] = field(default_factory=deque)
    in_flight: int = 0
    held_by: int = -1  # the request that has not put its frames on the wire yet
    cause: str = ""  # why the head is late
    pushing: bool = False
    begun: bool = False
    armed_ns: int = -1  # the time for which it stands in the timetable
    due_ns: int | None = None  # when its first request is due, if that is known


class Player:
    """One pass over the captured requests."""

    def __init__(
        self,
        loaded: Loaded,
        stage: Stage,
        switchboard: Switchboard,
        timetable: Timetable,
        shelf: Shelf,
        finished: Callable[[], None],
        ready: dict[int, Ready] | None = None,
    ) -> None:
        self.loaded, self.stage, self.board = loaded, stage, switchboard
        self.timetable, self.shelf = timetable, shelf
        self.results: list[Result] = []
        self.stopped = ""  # why it was ended early
        self.peak_in_flight = self.peak_lines = 0
        self._finished = finished
        self._settings = stage.settings
        self._gates: dict[int, Gate] = {}
        self._ended: set[int] = set()
        self._times: dict[int, int] = {}
        self._settled_ns: dict[int, int] = {}
        self._lines: dict[int, Line] = {}
        self._due: list[tuple[int, int, Line]] = []
        self._in_flight = 0
        self._active = 0
        self._rate_ns = 0
        self._recent: deque[tuple[int, bool, bool]] = deque()
        self._errors = self._throttled = 0
        self._done = False
        self._ready = ready or {}
        self._turn = stage.topology.turn
        stage.settled = self.gate
        stage.spawn = self.spawn

    # Beginning and end

    def start(self) -> None:
        """Put every request on its line, or into its bucket if nothing is to be sent."""
        playable = [item for item in self.loaded.items if item.refusal is None]
        times, self.loaded.removed_ns = without_long_gaps(
            [item.request.first_ns for item in playable], self._settings.max_gap_ns
        )
        self._times = {item.request.index: time for item, time in zip(playable, times, strict=True)}
        for item in self.loaded.items:
            if item.refusal is not None:
                self._settle(item, Result(item.request.index, *item.refusal))
                continue
            connection = item.request.connection
            line = self._lines.get(connection)
            if line is None:
                line = self._lines[connection] = Line(connection, self.loaded.caps[connection])
            line.waiting.append(item)
        for line in self._lines.values():
            self._arm(line)
        self._end_if_done()

    def stop(self, why: str) -> None:
        """Send no more; let what is in flight come to its end."""
        if self.stopped or self._done:
            return
        self.stopped = why
        for line in self._lines.values():
            while line.waiting:
                item = line.waiting.popleft()
                self._settle(item, Result(item.request.index, Bucket.POLICY, f"the run ended before: {why}"))
        self.board.at(self.board.now_ns + DRAIN_NS, self._cut_off)
        self._end_if_done()

    def _cut_off(self) -> None:
        if not self._done:
            for connection in list(self._lines):
                self.board.leave(connection)
            self._end_if_done(force=True)

    def _end_if_done(self, force: bool = False) -> None:
        if self._done or (
            not force and (self._in_flight or any(line.waiting for line in self._lines.values()))
        ):
            return
        self._done = True
        self.spawn(self._clean_up(), self._finished)

    def _clean_up(self) -> Errand:
        yield from abort_open(self.stage)
        yield from leave_all(self.stage)

    def spawn(self, errand: Errand, then: Callable[[], None] = lambda: None) -> None:
        """Run something beside the lines."""
        self.board.run(errand, "control", lambda _value, _failed: then())

    # Waiting

    def gate(self, index: int) -> Gate | None:
        """Give a gate that opens when a request has ended; None if it has."""
        if index in self._ended:
            return None
        return self._gates.setdefault(index, Gate())

    @property
    def next_ns(self) -> int | None:
        """When the next request is due."""
        return self._due[0][0] if self._due else None

    def wake(self) -> None:
        """Begin what is due."""
        now = self.board.now_ns
        while self._due and self._due[0][0] <= now:
            _, _, line = heapq.heappop(self._due)
            line.armed_ns = -1
            self._push(line)
        self._look_after()

    def _due_ns(self, line: Line) -> int | None:
        """Say when a line's first request is due; None while the answer that its client waited for is missing."""
        if line.due_ns is None:
            line.due_ns = self._moment(line.waiting[0])
        return line.due_ns

    def _moment(self, item: Item) -> int | None:
        table = self.timetable
        if table.pace is not Pace.THINK:
            return table.due_ns(self._times[item.request.index])
        if item.anchor < 0:
            return table.due_ns(self._times[item.request.index])
        settled = self._settled_ns.get(item.anchor)
        return None if settled is None else settled + table.think_ns(item.gap_ns)

    def _arm(self, line: Line) -> None:
        """Put a line into the timetable for its first request."""
        if not line.waiting:
            return
        due = self._due_ns(line)
        if due is not None and line.armed_ns != due:
            line.armed_ns = due
            heapq.heappush(self._due, (due, line.connection, line))

    def _push(self, line: Line) -> None:
        """Begin the requests of a line that are due and may begin."""
        if line.pushing:
            return
        line.pushing = True
        while line.waiting and not self.stopped:
            due = self._due_ns(line)
            if due is None:
                break
            if due > self.board.now_ns:
                self._arm(line)
                break
            if not self._may_begin(line):
                break
            item, line.due_ns = line.waiting.popleft(), None
            self._begin(line, item, due)
        line.pushing = False
        if not line.waiting and not line.in_flight and line.begun:
            line.begun = False
            self._active -= 1
            self.board.leave(line.connection)
            if self._settings.caps.connections is not None:
                self._let_in()

    def _let_in(self) -> None:
        """A connection ended: others may begin."""
        for line in self._lines.values():
            if line.waiting and not line.begun:
                self._arm(line)

    def _may_begin(self, line: Line) -> bool:
        caps = self._settings.caps
        if line.held_by >= 0:
            line.cause = DEPENDENCY
            return False
        if line.in_flight >= line.cap:
            line.cause = IN_FLIGHT
            return False
        if not line.begun and caps.connections is not None and self._active >= caps.connections:
            line.cause = "connection cap"
            return False
        if self._rate_ns > self.board.now_ns:
            line.cause = RATE
            line.armed_ns = self._rate_ns
            heapq.heappush(self._due, (self._rate_ns, line.connection, line))
            return False
        return True

    # One request

    def _begin(self, line: Line, item: Item, due: int) -> None:
        if not line.begun:
            line.begun = True
            self._active += 1
            self.peak_lines = max(self.peak_lines, self._active)
        line.in_flight += 1
        self._in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self._in_flight)
        line.held_by = item.request.index
        cause, line.cause = line.cause, ""
        began_ns = self.board.now_ns
        self._take_rate(item)
        course = self._course(item)

        asked_ns = began_ns

        def sent() -> None:
            nonlocal asked_ns
            asked_ns = self.board.now_ns
            if line.held_by == item.request.index:
                line.held_by = -1
                self._push(line)

        def done(answers: list[Answer] | None, failed: Exception | None) -> None:
            result = self._result(item, answers or [], failed)
            result.due_ns = due
            if result.lag_ns is not None and result.lag_ns > LATE_NS:
                held = next((answer.held for answer in answers or () if answer.held), "")
                waited = DEPENDENCY if asked_ns - began_ns > LATE_NS else ""
                result.cause = cause or waited or held or SELF
            line.in_flight -= 1
            self._in_flight -= 1
            if line.held_by == item.request.index:
                line.held_by = -1
            self._settle(item, result)
            self._push(line)
            self._end_if_done()

        self.board.run(course, line.connection, done, sent)

    def _course(self, item: Item) -> Course:
        ready = self._ready.get(item.request.index)
        if ready is not None and self.stage.topology.turn == self._turn:
            return ready_course(self.stage, item, ready)
        whole = decode_request(self.shelf.get(item.request.frame) or b"")
        return course_of(self.stage, item, whole.body or {})

    def _take_rate(self, item: Item) -> None:
        caps, now = self._settings.caps, self.board.now_ns
        wait = 0.0
        if caps.requests_per_second:
            wait = 1e9 / caps.requests_per_second
        if caps.bytes_per_second:
            wait = max(wait, 1e9 * item.request.frame.size / caps.bytes_per_second)
        if wait:
            self._rate_ns = max(self._rate_ns, now) + int(wait)

    def _result(self, item: Item, answers: list[Answer], failed: Exception | None) -> Result:
        index = item.request.index
        if isinstance(failed, Refused):
            return Result(index, failed.bucket, str(failed))
        if failed is not None:
            self.stop(str(failed))
            return Result(index, Bucket.POLICY, str(failed))
        result = Result(index, bucket_of(answers), parts=len(answers))
        sent = [answer.sent_ns for answer in answers if answer.sent_ns is not None]
        received = [answer.received_ns for answer in answers if answer.received_ns is not None]
        result.sent_ns = min(sent, default=None)
        result.received_ns = max(received) if result.bucket is Bucket.ANSWERED and received else None
        result.sent_bytes = sum(answer.sent_bytes for answer in answers)
        if answers:
            result.node, result.version = answers[0].node, answers[0].part.version
        for answer in answers:
            if answer.frame is not None:
                result.answers.append((answer.part.version, self.shelf.put(answer.frame)))
                result.throttle_ms = max(result.throttle_ms, answer.throttle_ms)
        self._watch(item, answers, result)
        return result

    def _settle(self, item: Item, result: Result) -> None:
        index = item.request.index
        self._ended.add(index)
        self._settled_ns[index] = result.received_ns or self.board.now_ns
        self.results.append(result)
        gate = self._gates.pop(index, None)
        if gate is not None:
            gate.open()

    # Watching

    def _watch(self, item: Item, answers: list[Answer], result: Result) -> None:
        if result.bucket is not Bucket.ANSWERED:
            error = result.bucket is not Bucket.NO_ANSWER_DUE
        elif item.request.index in self._ready and item.request.index % HEED_EVERY:
            return  # nobody waits for it: a sample is enough to tell whether the run goes well
        else:
            error = bool(first_error(answers)) and not item.error
        throttled = result.throttle_ms > 0
        self._recent.append((self.board.now_ns, error, throttled))
        self._errors += error
        self._throttled += throttled

    def _look_after(self) -> None:
        """Stop the run when a rail says so."""
        now, breaker, recent = self.board.now_ns, self._settings.breaker, self._recent
        while recent and recent[0][0] < now - WINDOW_NS:
            _, error, throttled = recent.popleft()
            self._errors -= error
            self._throttled -= throttled
        if self.board.failure is not None:
            self.stop(str(self.board.failure))
        if self.board.tallies.refused_in_a_row >= breaker.refusals:
            self.stop(f"{breaker.refusals} connections in a row were refused")
        if len(recent) >= breaker.least_answers:
            if self._errors > breaker.error_share * len(recent):
                self.stop(
                    f"{self._errors} of the last {len(recent)} requests failed that did not in the capture"
                )
            if self._throttled > breaker.throttled_share * len(recent):
                self.stop(f"the target throttled {self._throttled} of the last {len(recent)} requests")
        duration = self._settings.caps.duration_s
        if duration is not None and now - self.timetable.start_ns > duration * 1e9:
            self.stop(f"--max-duration {duration:g}s is over")
        behind = now - self._due[0][0] if self._due else 0
        if self.timetable.pace is Pace.SCHEDULE and behind > breaker.lag_s * 1e9:
            self.stop(f"the replayer is {behind / 1e9:.0f} s behind its own schedule")
