"""Plays captured requests: one line for each captured connection, each request at its moment, none without an end.

A line keeps its order, and has no more in flight than its connection had in the capture. The next request of a line may begin
when the one before it has put its own frames on the wire; what that waits for (an id, a coordinator) holds the line up, and
is its reason for being late. What is ready goes out as a `InFlightRequest`, all else as a course. Deadlines, caps and the circuit breaker
bound everything.
"""

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import CONTROL, Answer, Coroutine
from kdissect.replay.engine.circuit_breaker import CircuitBreaker
from kdissect.replay.engine.connection_queue import ConnectionQueue, connection_queues
from kdissect.replay.engine.fast_path.answer_cache import AnswerCache
from kdissect.replay.engine.fast_path.in_flight import (
    FastPath,
    InFlightRequest,
    in_flight_type,
)
from kdissect.replay.engine.fast_path.prepared_requests import PreparedRequest, PreparedRequests
from kdissect.replay.engine.pass_results import (
    RequestResult,
    ResultTable,
    result_of,
)
from kdissect.replay.engine.schedule import Schedule, without_long_gaps
from kdissect.replay.engine.stop_signal import StopSignal
from kdissect.replay.engine.timer_queue import TimerQueue
from kdissect.replay.handlers import handle
from kdissect.replay.handlers.rejoin import leave_all
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.transactions import abort_open
from kdissect.replay.load.replay_input import ReplayInput, ReplayItem
from kdissect.replay.load.spool import Spool
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import Pace

DRAIN_NS = 5_000_000_000  # what is in flight gets this long when a run is stopped
LATE_NS = 2_000_000  # timers of event loops count in ms
EARLY_NS = 250_000_000  # a connection is opened so long before its first request is due
LEAD_NS, OPENING_NS, LONGEST_LEAD_NS = 100_000_000, 1_000_000, 5_000_000_000  # for all, for each, at most
MOST_AT_ONCE = 16  # requests begun before they are written and answers are looked at again
LOOK_NS = 2_000_000  # answers that nobody waits for are looked at no more often than this
IDLE_NS = 1_000_000  # without anything due: time to make requests ready
MADE_AT_ONCE, MADE_BYTES = 16, 1 << 20  # which takes less than that
IN_FLIGHT, DEPENDENCY, RATE, SELF = "in-flight cap", "dependency", "rate cap", "self"


class Player:
    """One pass over the captured requests."""

    def __init__(
        self,
        loaded: ReplayInput,
        context: ReplayContext,
        switchboard: ConnectionPool,
        timetable: Schedule,
        shelf: Spool,
        finished: Callable[[], None],
        ready: PreparedRequests | None = None,
        items: Sequence[ReplayItem] | None = None,
        word: StopSignal | None = None,
    ) -> None:
        self.loaded, self.context, self.board = loaded, context, switchboard
        self.items = loaded.items if items is None else items  # those that this process plays
        self._word = word
        self.timetable, self.shelf = timetable, shelf
        self.results = ResultTable()
        self.stopped = ""  # why it was ended early
        self.peak_in_flight = self.peak_lines = 0
        self._finished = finished
        self._settings = context.settings
        self._gates = context.gates
        self._set_moments()
        self._thinks = timetable.pace is Pace.THINK
        self._settled_ns: dict[int, int] = {}
        self._lines = connection_queues((item for item in self.items if item.refusal is None), loaded.caps)
        self._calendar = TimerQueue(self._planned())
        self._in_flight = 0
        self._active = 0
        self._rate_ns = 0
        self._begun_bytes = 0
        self._rated = bool(self._settings.caps.requests_per_second or self._settings.caps.bytes_per_second)
        self._watch = CircuitBreaker(self._settings.breaker)
        self._looked_ns = self._unseen = self._early_ns = 0
        self._done = False
        self._ready = PreparedRequests(context, ()) if ready is None else ready
        self._tower = FastPath(context, switchboard, AnswerCache(), self._landed)
        switchboard.hung_up = self._look_for_leaders

    def _set_moments(self) -> None:
        """Say how long after the start each request is due that may be sent, with gaps as short as was asked for."""
        playable = [item for item in self.loaded.items if item.refusal is None]
        times, self.loaded.removed_ns = without_long_gaps(
            [item.request.first_ns for item in playable], self._settings.max_gap_ns
        )
        table = dataclasses.replace(self.timetable, start_ns=0)
        for item, time in zip(playable, times, strict=True):
            item.after_ns = table.due_ns(time)

    def _planned(self) -> Iterable[tuple[int, ConnectionQueue]]:
        """Give the time of every request with its line; of only the first ones where no other has a time of its own."""
        if self.timetable.pace is not Pace.SCHEDULE:
            return ((line.waiting[0].after_ns, line) for line in self._lines.values())
        playable = (item for item in self.items if item.refusal is None)
        return ((item.after_ns, self._lines[item.request.connection]) for item in playable)

    # Beginning and end

    @property
    def lead_ns(self) -> int:
        """How long before the first request the connections that are wanted at once should be opened."""
        if self.timetable.pace is Pace.ASAP:
            return 0
        firsts = [line.waiting[0].after_ns for line in self._lines.values()]
        wanted = bisect_left(sorted(firsts), min(firsts, default=0) + EARLY_NS)
        return min(LEAD_NS + wanted * OPENING_NS, LONGEST_LEAD_NS)

    def start(self, start_ns: int | None = None) -> None:
        """Let the pace count from `start_ns`; put what is never sent into its bucket, and have connections opened in time."""
        if start_ns is not None:
            self.timetable = dataclasses.replace(self.timetable, start_ns=start_ns)
        self._calendar.start_ns = self.timetable.start_ns
        for item in self.items:
            if item.refusal is not None:
                self._skip(item, *item.refusal)
        self._early_ns = max(EARLY_NS, self.lead_ns)
        for line in self._lines.values():
            self._open_early(line)
        self._end_if_done()

    def stop(self, why: str) -> None:
        """Send no more; let what is in flight come to its end."""
        if self.stopped or self._done:
            return
        self.stopped = why
        if self._word is not None:
            self._word.give(why)
        for line in self._lines.values():
            while line.waiting:
                item = line.waiting.popleft()
                self._skip(item, Disposition.POLICY, f"the run ended before: {why}")
        self._calendar.clear()
        self.board.at(self.board.now_ns + DRAIN_NS, self._cut_off)
        self._end_if_done()

    def _cut_off(self) -> None:
        if not self._done:
            self.board.leave_all()
            self._end_if_done(force=True)

    def _end_if_done(self, force: bool = False) -> None:
        if self._done or (not force and len(self._gates) < len(self.items)):
            return
        self._done = True
        self.board.run(self._clean_up(), CONTROL, lambda _value, _failed: self._finished())

    def _clean_up(self) -> Coroutine[None]:
        yield from abort_open(self.context)
        yield from leave_all(self.context)

    def _look_for_leaders(self) -> None:
        """Learn leaders anew when a link was closed: to acks = 0 that is all that a node says which does not lead."""
        if not self._done:
            self.board.spawn(self.context.leaders.refresh(), CONTROL)

    # Waiting

    @property
    def next_ns(self) -> int | None:
        """When the next request is due, or there is time to make some ready."""
        due = self._calendar.next_ns
        if not self._ready.wanting:
            return due
        idle = self.board.now_ns + IDLE_NS
        return idle if due is None else min(due, idle)

    def wake(self) -> None:
        """Begin what is due, but not so much at once that answers have to wait."""
        now_ns = self.board.now_ns
        for line in self._calendar.take(now_ns, MOST_AT_ONCE):
            if not line.stuck:
                self._push(line)
        self._look_after()
        if self._ready.wanting:
            due = self._calendar.next_ns
            if due is None or due > now_ns + IDLE_NS:
                self._ready.make(MADE_AT_ONCE, MADE_BYTES)

    def _due_ns(self, item: ReplayItem) -> int | None:
        """Say when a request is due; None while the answer that its client waited for is missing."""
        if not self._thinks or item.anchor < 0:
            return self.timetable.start_ns + item.after_ns
        settled = self._settled_ns.get(item.anchor)
        return None if settled is None else settled + self.timetable.think_ns(item.gap_ns)

    def _open_early(self, line: ConnectionQueue) -> None:
        """Have a line's connection opened before it is needed, if it is known where to."""
        first = line.waiting[0]
        ready, due = self._ready.seen(first.request.index), self._due_ns(first)
        if (
            ready is not None
            and ready.home is not None
            and due is not None
            and self._settings.caps.connections is None
        ):
            self.board.at(due - self._early_ns, partial(self._open, line, ready.home))

    def _open(self, line: ConnectionQueue, node: int) -> None:
        if line.waiting and not line.begun:
            self.board.open(line.connection, node)

    def _push(self, line: ConnectionQueue) -> None:
        """Begin the requests of a line that are due and may begin."""
        if line.pushing:
            return
        line.pushing, line.stuck = True, False
        waiting = line.waiting
        while waiting and not self.stopped:
            item = waiting[0]
            due = self._due_ns(item)
            if due is None:
                break
            if due > self.board.now_ns:
                if self._thinks:
                    self._calendar.alarm(line, due)
                break
            if not self._may_begin(line):
                break
            waiting.popleft()
            line.let_go(due, self.board.now_ns)
            self._begin(line, item, due)
        line.pushing = False
        if not waiting and not line.in_flight and line.begun:
            line.begun = False
            self._active -= 1
            self.board.leave(line.connection)
            if self._settings.caps.connections is not None:
                self._let_in()

    def _let_in(self) -> None:
        """A connection ended: others may begin."""
        for line in self._lines.values():
            if line.stuck and not line.begun:
                line.stuck = False
                self._calendar.alarm(line, self.board.now_ns)

    def _may_begin(self, line: ConnectionQueue) -> bool:
        if line.held_by >= 0:
            line.cause, line.stuck = DEPENDENCY, True
            return False
        if line.in_flight >= line.cap:
            line.cause, line.stuck = IN_FLIGHT, True
            return False
        if not line.begun:
            most = self._settings.caps.connections
            if most is not None and self._active >= most:
                line.cause, line.stuck = "connection cap", True
                return False
        if self._rate_ns > self.board.now_ns:
            line.cause = RATE
            self._calendar.alarm(line, self._rate_ns)
            return False
        return True

    def _take_rate(self, item: ReplayItem) -> None:
        caps, now = self._settings.caps, self.board.now_ns
        wait = 0.0
        if caps.requests_per_second:
            wait = 1e9 / caps.requests_per_second
        if caps.bytes_per_second:
            wait = max(wait, 1e9 * item.request.frame.size / caps.bytes_per_second)
        if wait:
            self._rate_ns = max(self._rate_ns, now) + int(wait)

    # One request

    def _begin(self, line: ConnectionQueue, item: ReplayItem, due: int) -> None:
        if not line.begun:
            line.begun = True
            self._active += 1
            self.peak_lines = max(self.peak_lines, self._active)
        line.in_flight += 1
        self._in_flight += 1
        self._begun_bytes += item.request.frame.size
        self.peak_in_flight = max(self.peak_in_flight, self._in_flight)
        if self._rated:
            self._take_rate(item)
        ready = self._ready.take(item.request.index)
        if ready is None or not self._launch(line, item, ready, due):
            self._follow(line, item, due)

    def _end(self, line: ConnectionQueue, index: int, received_ns: int | None) -> None:
        """Take in that a request of a line has ended: the next may begin."""
        line.in_flight -= 1
        self._in_flight -= 1
        self._settled(index, received_ns)
        if line.stuck or self._thinks or not line.waiting:  # else its next request has its time
            self._push(line)
        if not self._in_flight:
            self._end_if_done()

    def _launch(self, line: ConnectionQueue, item: ReplayItem, ready: PreparedRequest, due: int) -> bool:
        """Send what is ready; False if it has to wait for something."""
        if in_flight_type(ready)(self._tower, line, item, ready, due).begin():
            line.cause = ""
            return True
        self.context.notes.forget(item.request.index)  # what is rewritten anew is noted anew
        return False

    def _landed(self, flight: InFlightRequest) -> None:
        answers, index, due_ns = flight.answers, flight.item.request.index, flight.due_ns
        if flight.ready.produced is not None:
            self.context.notes.produced[index] = flight.ready.produced
        if flight.good and len(answers) == 1:  # nearly always
            answer = answers[0]
            sent_ns, said = answer.sent_ns, answer.frame
            assert sent_ns is not None
            assert said is not None
            cause = "" if sent_ns - due_ns <= LATE_NS else flight.cause or answer.held or SELF
            self.results.well(index, due_ns, cause, answer, self.shelf.add(said))
            self._watch.note(self.board.now_ns, False, False)
            return self._end(flight.line, index, answer.received_ns)
        result = result_of(index, answers, self.shelf.put)
        result.due_ns = due_ns
        if (result.lag_ns or 0) > LATE_NS:
            result.cause = flight.cause or _held(answers) or SELF
        if flight.good:
            self._watch.note(self.board.now_ns, False, False)
        elif flight.heeded or result.bucket is not Disposition.ANSWERED:
            self._observe(flight.item, answers, result)
        else:
            self._glance(flight.item, answers, result)
        self.results.append(result)
        return self._end(flight.line, index, result.received_ns)

    def _follow(self, line: ConnectionQueue, item: ReplayItem, due: int) -> None:
        """Send a request by its course."""
        line.held_by = item.request.index
        cause, line.cause = line.cause, ""
        began_ns = asked_ns = self.board.now_ns

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
                waited = DEPENDENCY if asked_ns - began_ns > LATE_NS else ""
                result.cause = cause or waited or _held(answers or ()) or SELF
            if line.held_by == item.request.index:
                line.held_by = -1
            self.results.append(result)
            self._end(line, item.request.index, result.received_ns)

        self.board.run(handle(self.context, item), line.connection, done, sent)

    def _result(self, item: ReplayItem, answers: list[Answer], failed: Exception | None) -> RequestResult:
        index = item.request.index
        if isinstance(failed, SkipRequest):
            return RequestResult(index, failed.bucket, str(failed))
        if failed is not None:
            self.stop(str(failed))
            return RequestResult(index, Disposition.POLICY, str(failed))
        result = result_of(index, answers, self.shelf.put)
        self._observe(item, answers, result)
        return result

    def _skip(self, item: ReplayItem, bucket: Disposition, why: str) -> None:
        """Put a request that is not sent where it belongs."""
        self.results.append(RequestResult(item.request.index, bucket, why))
        self._settled(item.request.index, None)

    def _settled(self, index: int, received_ns: int | None) -> None:
        """Take in that a request has ended: others may wait for it."""
        if self._thinks:
            self._settled_ns[index] = received_ns or self.board.now_ns
        self._gates.end(index)

    # Watching

    def _observe(
        self, item: ReplayItem, answers: list[Answer], result: RequestResult, requests: int = 1
    ) -> None:
        if result.bucket is not Disposition.ANSWERED:
            error = result.bucket is not Disposition.NO_ANSWER_DUE
        else:
            error = any(answer.errors for answer in answers) and not item.error
        self._watch.note(self.board.now_ns, error, result.throttle_ms > 0, requests)

    def _glance(self, item: ReplayItem, answers: list[Answer], result: RequestResult) -> None:
        """Look at an answer that nobody waits for, unless the last one was just now: then the next stands for it."""
        self._unseen += 1
        if self.board.now_ns - self._looked_ns >= LOOK_NS:
            self._looked_ns = self.board.now_ns
            if self.context.leaders.moved(answers):
                self.board.spawn(self.context.leaders.refresh(), CONTROL)
            self._observe(item, answers, result, self._unseen)
            self._unseen = 0
            (answer,) = answers
            if answer.frame is not None and answer.body and not answer.errors and not answer.throttle_ms:
                self._tower.familiar.add(answer.part, answer.frame)

    def _look_after(self) -> None:
        """Stop the run when a rail says so."""
        now, breaker = self.board.now_ns, self._settings.breaker
        why = self._watch.verdict(now, self.board) or (self._word.given if self._word else "")
        if why:
            self.stop(why)
        duration = self._settings.caps.duration_s
        if duration is not None and now - self.timetable.start_ns > duration * 1e9:
            self.stop(f"--max-duration {duration:g}s is over")
        most = self._settings.caps.bytes_in_all
        if most is not None and self._begun_bytes >= most:
            self.stop(f"--max-bytes {most:,} are sent")
        behind = now - (self._calendar.next_ns or now)
        if self.timetable.pace is Pace.SCHEDULE and behind > breaker.lag_s * 1e9:
            self.stop(f"the replayer is {behind / 1e9:.0f} s behind its own schedule")


def _held(answers: Iterable[Answer]) -> str:
    return next((answer.held for answer in answers if answer.held), "")
