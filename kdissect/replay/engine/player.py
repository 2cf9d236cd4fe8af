"""Sends captured requests: each connection in its order, each request at its time, none without an end.

In: the requests that this process sends, their due times, and the limits of the pass. Out: one result for
each request.

The player keeps time and order, and nothing else. A connection keeps its order, and the next request of it
may begin when the one before has put its own frames on the wire. The thing that it waits for (an id, a
coordinator) holds the connection up, and is the cause of the delay. A request that was prepared ahead goes by
the `fast_path`, every other one by its handler; `_finish` accounts for both. `RunLimits` decides what may be
sent and when the pass must stop, the `ConnectionPool` sends, and `RequestGates` tells those who wait for a
request that it has ended. Every wait has a deadline.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kdissect.array_types import Int64s
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import CONTROL, Answer, Coroutine
from kdissect.replay.engine.connection_queue import (
    NONE,
    ConnectionQueue,
    TimerQueue,
    connection_queues,
    drop_waiting,
)
from kdissect.replay.engine.fast_path.alike_in_flight import AlikeInFlight, AlikePath
from kdissect.replay.engine.fast_path.alike_produces import AlikeProduce
from kdissect.replay.engine.fast_path.in_flight import FastPath, InFlightRequest
from kdissect.replay.engine.fast_path.prepared_requests import PreparedRequests
from kdissect.replay.engine.pass_results import PassOutcome, ResultTable
from kdissect.replay.engine.request_accounts import LATE_NS, RequestAccounts, is_sent_again
from kdissect.replay.engine.request_times import EARLY_NS, RequestTimes
from kdissect.replay.engine.run_limits import IN_FLIGHT_CAP, RecentEnds, RunLimits
from kdissect.replay.engine.schedule import Schedule
from kdissect.replay.handlers import handle
from kdissect.replay.handlers.rejoin import leave_all
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.transactions import abort_open
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItem, column_blocks, indices_of, refused_requests
from kdissect.replay.load.spool import Spool
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import Pace

DRAIN_NS = 5_000_000_000  # how long requests in flight are awaited when a pass is stopped
MOST_AT_ONCE = 16  # requests that begin before written frames and answers are looked at again
IDLE_NS = 1_000_000  # without a request due there is time to prepare others,
PREPARED_AT_ONCE, PREPARED_BYTES = 16, 1 << 20  # which takes less than that
ENOUGH_AHEAD = 4096  # prepared requests at pace asap, where every moment could also be used for sending
DEPENDENCY = "dependency"  # the cause of delay that is another request


@dataclass(frozen=True, slots=True)
class PlayerSetup:
    """Inputs of a player."""

    replay_input: ReplayInput
    items: Sequence[ReplayItem]  # the requests that this process sends or skips, in the order of the capture
    context: ReplayContext
    pool: ConnectionPool
    schedule: Schedule
    limits: RunLimits
    prepared: PreparedRequests
    spool: Spool  # keeps the responses
    finished: Callable[[], None]  # called when all requests have ended
    results: ResultTable = field(default_factory=ResultTable)


class Player:
    """One pass over captured requests. Times are ns on the clock of the run."""

    def __init__(self, setup: PlayerSetup) -> None:
        self.results = setup.results
        self.stopped = ""  # why the pass was ended early
        self.context, self.pool, self.spool = setup.context, setup.pool, setup.spool
        self._items, self._finished = setup.items, setup.finished
        self._limits, self._prepared = setup.limits, setup.prepared
        self._accounts = RequestAccounts(setup.results, setup.spool, setup.limits, setup.pool)
        self._gates = setup.context.gates
        self._fast_path = FastPath(setup.context, setup.pool, self._end_in_flight)
        self._alike_path = AlikePath(self._fast_path, self._end_alike)
        self._times = RequestTimes(
            setup.schedule, setup.replay_input.items, setup.context.settings.max_gap_ns
        )
        self._at_once = setup.schedule.pace is Pace.ASAP  # so every request is due from the start on
        self._queues = connection_queues(setup.items, setup.replay_input.caps)
        queues = list(self._queues.values())
        self._timers = TimerQueue(self._times.planned(setup.items, queues), queues)
        self._last_answer_ns = -1
        self._done = False  # all requests have ended, and transactions and memberships are being ended
        self.pool.on_connection_lost(self._refresh_leaders)

    # Beginning and end

    @property
    def lead_ns(self) -> int:
        """Return how long before the first request the connections wanted at once should be opened."""
        return self._times.lead_ns(self._queues.values())

    def start(self, start_ns: int | None = None) -> None:
        """Begin the pass, at `start_ns` or when the schedule says."""
        if start_ns is not None:
            self._times.begin(start_ns)
        self._timers.start_ns = self._times.schedule.start_ns
        for indices, refusal in refused_requests(self._items):
            self._skip_all(indices, *refusal)
        early_ns = max(EARLY_NS, self.lead_ns)
        for queue in self._queues.values():
            self._open_early(queue, early_ns)
        self._end_if_done()

    def stop(self, reason: str) -> None:
        """Send no more, and await what is in flight."""
        if self.stopped or self._done:
            return
        self.stopped = reason
        self._limits.stop_others(reason)
        for places in drop_waiting(self._queues.values()):
            indices = indices_of(self._items, places)
            self._skip_all(indices, Disposition.POLICY, f"the run ended before: {reason}")
        self._timers.clear()
        self.pool.at(self.pool.now_ns + DRAIN_NS, self._cut_off)
        self._end_if_done()

    def _cut_off(self) -> None:
        """End what is still in flight when the time to await it is over."""
        if not self._done:
            self.pool.leave_all()
            # Requests that wait for another one are on no connection.
            for (indices,) in column_blocks(self._items, "index"):
                left = self._gates.unended(indices)
                self._skip_all(left, Disposition.POLICY, f"the run ended before: {self.stopped}")
            self._end_if_done(force=True)

    def _end_if_done(self, force: bool = False) -> None:
        if self._done or (not force and len(self._gates) < len(self._items)):
            return
        self._done = True
        self.pool.run(self._clean_up(), CONTROL, lambda _value, _failure: self._finished())

    def _clean_up(self) -> Coroutine[None]:
        yield from abort_open(self.context)
        yield from leave_all(self.context)

    def _refresh_leaders(self) -> None:
        """Ask for leaders again.

        To acks=0, a node that leads no longer says so only by closing the connection.
        """
        if not self._done:
            self.pool.spawn(self.context.leaders.refresh(), CONTROL)

    def outcome(self) -> PassOutcome:
        """Return what the pass has left behind so far."""
        context = self.context
        return PassOutcome(
            results=self.results,
            notes=context.notes.by_request,
            produced=context.notes.produced,
            counts=context.notes.counts,
            rules=context.positions.used,
            clamped=context.positions.clamped,
            commits=context.commits.summary(context.positions),
            open_transactions=sorted(map(context.names.transactional, context.transactions.open)),
            topic_names=context.names.target_names,
            counters=self.pool.counters,
            stopped=self.stopped,
            peak_in_flight=self._limits.peak_in_flight,
            peak_connections=self._limits.peak_connections,
        )

    @property
    def recent(self) -> RecentEnds:
        """Return how the requests of the last ten seconds ended."""
        return self._limits.recent(self.pool.now_ns)

    # Time

    @property
    def next_ns(self) -> int | None:
        """Return the time at which the next request is due or some can be prepared; None: never."""
        due_ns = self._timers.next_ns
        if not self._prepares:
            return due_ns
        idle_ns = self.pool.now_ns + IDLE_NS
        return idle_ns if due_ns is None else min(due_ns, idle_ns)

    @property
    def _prepares(self) -> bool:
        """Return whether more requests should be prepared ahead."""
        prepared = self._prepared
        return prepared.wanting and not (self._at_once and len(prepared) >= ENOUGH_AHEAD)

    def wake(self) -> None:
        """Begin what is due, but not so much at once that answers have to wait."""
        now_ns = self.pool.now_ns
        for queue in self._timers.take(now_ns, MOST_AT_ONCE):
            if not queue.blocked:
                self._advance(queue)
        self._stop_if_necessary()
        if self._prepares:
            due_ns = self._timers.next_ns
            if due_ns is None or due_ns > now_ns + IDLE_NS:
                self._prepared.make(PREPARED_AT_ONCE, PREPARED_BYTES)

    def _open_early(self, queue: ConnectionQueue, early_ns: int) -> None:
        """Have a connection opened before it is needed, if its first node is known."""
        first = queue.waiting.head
        prepared, due_ns = self._prepared.seen(first.request.index), self._times.due_ns(first)
        if prepared is None or prepared.first_node is None or due_ns is None:
            return
        if not self._limits.caps_connections:
            self.pool.at(due_ns - early_ns, partial(self._open, queue, prepared.first_node))

    def _open(self, queue: ConnectionQueue, node: int) -> None:
        if queue.waiting and not queue.open:
            self.pool.open(queue.connection, node)

    def _stop_if_necessary(self) -> None:
        """Stop the pass when a limit or the target says so."""
        pool, now_ns, start_ns = self.pool, self.pool.now_ns, self._times.schedule.start_ns
        behind_ns = 0
        if self._times.schedule.pace is Pace.SCHEDULE:
            behind_ns = now_ns - (self._timers.next_ns or now_ns)
        counters = pool.counters
        if self._last_answer_ns >= counters.refused_since_ns:  # one broker is down, and others answer
            counters.refused_in_a_row = 0
        reason = self._limits.reason_to_stop(now_ns, now_ns - start_ns, behind_ns, counters)
        if pool.failure is not None:
            reason = str(pool.failure)
        if reason:
            self.stop(reason)

    # Order

    def _advance(self, queue: ConnectionQueue) -> None:
        """Begin the requests of a connection that are due and may begin."""
        if queue.advancing:
            return
        queue.advancing, queue.blocked = True, False
        waiting, at_once = queue.waiting, self._at_once
        while waiting.left and not self.stopped:
            now_ns = self.pool.now_ns
            due_ns = self._times.schedule.start_ns if at_once else self._due_ns(queue)
            if due_ns is None:
                break
            if due_ns > now_ns:
                if self._times.thinks:
                    self._timers.add_alarm(queue, due_ns)
                break
            if not self._may_begin(queue, now_ns):
                break
            queue.begin_head(due_ns, now_ns)
            self._begin(queue, due_ns)
        queue.advancing = False
        if not waiting.left and not queue.in_flight and queue.open:
            self._close(queue)

    def _due_ns(self, queue: ConnectionQueue) -> int | None:
        """Return when the head of a queue is due; None as long as that is not known."""
        if not self._times.thinks:
            prepared = self._prepared.seen(queue.waiting.index)
            if isinstance(prepared, AlikeProduce):
                return self._times.planned_ns(prepared.first_ns)
        queue.waiting.offer(self._prepared.take_item(queue.waiting.index))
        return self._times.due_ns(queue.waiting.head)

    def _may_begin(self, queue: ConnectionQueue, now_ns: int) -> bool:
        """Return whether the head of a queue may begin; if not, it will be looked at again."""
        if queue.unsent != NONE:
            queue.block(DEPENDENCY)
            return False
        if queue.in_flight >= queue.most_in_flight:  # as nearly always, when one of its requests has begun
            queue.block(IN_FLIGHT_CAP)
            return False
        wait = self._limits.may_send(queue, now_ns)
        if wait is None:
            return True
        if wait.until_ns is None:
            queue.block(wait.cause)
        else:
            queue.cause = wait.cause
            self._timers.add_alarm(queue, wait.until_ns)
        return False

    def _close(self, queue: ConnectionQueue) -> None:
        """Close a connection all of whose requests have ended; others may have waited for that."""
        self._limits.close(queue)
        self.pool.leave(queue.connection)
        if self._limits.caps_connections:
            for other in self._queues.values():
                if other.blocked and not other.open:
                    other.blocked = False
                    self._timers.add_alarm(other, self.pool.now_ns)

    # One request

    def _begin(self, queue: ConnectionQueue, due_ns: int) -> None:
        """Send the head of a queue, by the fast path if it was prepared and nothing has to be waited for."""
        waiting, now_ns = queue.waiting, self.pool.now_ns
        prepared = self._prepared.take(waiting.index)
        if not isinstance(prepared, AlikeProduce):
            waiting.offer(self._prepared.take_item(waiting.index))
            prepared = prepared or self._prepared.make_now(waiting.head)
        if isinstance(prepared, AlikeProduce):
            self._limits.begin(queue, len(prepared.frame), now_ns)
            if self._alike_path.send(queue, prepared, due_ns):
                waiting.skip()
                queue.cause = ""
                return
            item, prepared = waiting.popleft(), prepared.whole()
        else:
            item = waiting.popleft()
            self._limits.begin(queue, item.request.frame.size, now_ns)
        if prepared is not None and self._fast_path.send(queue, item, prepared, due_ns):
            queue.cause = ""
        else:
            self._handle(queue, item, due_ns)

    def _end_alike(self, request: AlikeInFlight) -> None:
        """Account for a request like an earlier one, which was answered with success."""
        index = request.alike.request
        self._accounts.good(index, request.due_ns, request.cause, request)
        self._end(request.queue, index, request.received_ns)

    def _end_in_flight(self, request: InFlightRequest) -> None:
        """Account for a request that went by the fast path."""
        self._finish(request.queue, request.item, request.due_ns, request.cause, request.answers, request)

    def _handle(self, queue: ConnectionQueue, item: ReplayItem, due_ns: int) -> None:
        """Send a request by its handler."""
        index = item.request.index
        queue.unsent = index
        cause, queue.cause = queue.cause, ""
        began_ns = sent_ns = self.pool.now_ns

        def sent() -> None:
            nonlocal sent_ns
            sent_ns = self.pool.now_ns
            if queue.unsent == index:
                queue.unsent = NONE
                self._advance(queue)

        def ended(answers: list[Answer] | None, failure: Exception | None) -> None:
            if queue.unsent == index:
                queue.unsent = NONE
            if self._gates.has_ended(index):  # it was cut off, and is accounted for
                return
            waited = DEPENDENCY if sent_ns - began_ns > LATE_NS or is_sent_again(answers, sent_ns) else ""
            if failure is None:
                self._finish(queue, item, due_ns, cause or waited, answers or [])
            else:
                self._fail(queue, item, due_ns, failure)

        self.pool.run(handle(self.context, item), queue.connection, ended, sent)

    def _finish(
        self,
        queue: ConnectionQueue,
        item: ReplayItem,
        due_ns: int,
        cause: str,
        answers: Sequence[Answer],
        request: InFlightRequest | None = None,
    ) -> None:
        """Account for a request that was sent (see `RequestAccounts.sent`), and let the next one begin."""
        answered_ns = self._accounts.sent(item, due_ns, cause, answers, request)
        self._end(queue, item.request.index, answered_ns)

    def _fail(self, queue: ConnectionQueue, item: ReplayItem, due_ns: int, failure: Exception) -> None:
        """Account for a request that could not be sent; what is not its own fault ends the pass."""
        if not isinstance(failure, SkipRequest):
            self.stop(str(failure))
        self._accounts.failed(item.request.index, due_ns, failure)
        self._end(queue, item.request.index, None)

    def _end(self, queue: ConnectionQueue, index: int, received_ns: int | None) -> None:
        """Begin what waited for a request: the next one of its connection, and others."""
        self._limits.end(queue)
        if received_ns is not None:
            self._last_answer_ns = received_ns
        thinks = self._times.thinks
        if thinks:
            self._times.note_end(index, received_ns or self.pool.now_ns)
        self._gates.end(index)
        if queue.blocked or thinks or not queue.waiting.left:  # else its next request has its time
            self._advance(queue)
        if not self._limits.in_flight:
            self._end_if_done()

    def _skip_all(self, indices: Int64s, disposition: Disposition, reason: str) -> None:
        """Account for many requests that are not sent."""
        self.results.append_all_skipped(indices, disposition, reason)
        self._times.note_ends(indices, self.pool.now_ns)
        self._gates.end_all(indices)
