"""Prepared requests from sending to the last answer: one object for each, and no coroutine.

In: a prepared request whose turn has come. Out: frames, and the answers at the one place where the player
accounts for requests. Nothing is decoded of an answer that is the expected one; every other one is taken in
by the functions of the handlers.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from kdissect.protocol.codec.messages import CodecError, DecodeError
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import CONTROL, Answer, Part
from kdissect.replay.engine.connection_queue import ConnectionQueue
from kdissect.replay.engine.fast_path.expected_answer import AnswerCache, offset_at
from kdissect.replay.engine.fast_path.prepared_parts import PreparedPart, PreparedRequest
from kdissect.replay.handlers.fetch import fetch_parts, learn_fetched
from kdissect.replay.handlers.fetch_patience import missing_before_fetch
from kdissect.replay.handlers.produce_batches import OutgoingBatch, numbered_now
from kdissect.replay.handlers.produce_delivery import deliver, learn_taken
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.net.pool import ConnectionPool

SAMPLE_NS = 2_000_000  # unknown answers to reads are decoded no more often than this


class FastPath:
    """Objects that all prepared requests of a pass share.

    `ended` is called with each one when it has all its answers.
    """

    def __init__(
        self, context: ReplayContext, pool: ConnectionPool, ended: Callable[["InFlightRequest"], None]
    ) -> None:
        self.context, self.pool, self.ended = context, pool, ended
        self.known_answers = AnswerCache()
        self._sampled_ns = 0  # when an unknown answer was last looked at
        self._unsampled = 0  # answers since then

    def send(self, queue: ConnectionQueue, item: ReplayItem, prepared: PreparedRequest, due_ns: int) -> bool:
        """Send a prepared request.

        Return False if it has to wait for something, which is left to its handler.
        """
        if _request_type(prepared)(self, queue, item, prepared, due_ns).send():
            return True
        self.context.notes.forget(item.request.index)  # the handler notes anew how it is rewritten
        return False

    def sample(self) -> int:
        """Return how many answers the present one stands for; 0 if it need not be looked at.

        The target may answer the same question in many ways. Looking at a few answers of each moment is
        enough to notice errors.
        """
        self._unsampled += 1
        now_ns = self.pool.now_ns
        if now_ns - self._sampled_ns < SAMPLE_NS:
            return 0
        count, self._unsampled, self._sampled_ns = self._unsampled, 0, now_ns
        return count


class InFlightRequest:
    """One captured request on its way. Times are ns on the clock of the run."""

    __slots__ = (
        "answers",
        "cause",
        "due_ns",
        "good",
        "item",
        "missing",
        "path",
        "prepared",
        "queue",
        "stands_for",
    )

    def __init__(
        self,
        path: FastPath,
        queue: ConnectionQueue,
        item: ReplayItem,
        prepared: PreparedRequest,
        due_ns: int,
    ) -> None:
        self.path, self.queue, self.item, self.prepared = path, queue, item, prepared
        self.due_ns, self.cause = due_ns, queue.cause  # why it may be late
        self.answers: list[Answer] = []
        self.missing = 1  # answers that have not come
        self.good = True  # all answers say that all went well
        self.stands_for = 1  # requests, in the count of errors

    def send(self) -> bool:
        """Send it. Return False if it has to wait for something, or cannot be sent."""
        raise NotImplementedError

    def ask(self, parts: Sequence[tuple[Part, Callable[[Answer], None]]]) -> None:
        """Send all parts, each with what takes its answer."""
        self.missing = len(parts)
        pool, connection = self.path.pool, self.queue.connection
        for number, (part, take) in enumerate(parts):
            if number:
                pool.counters.add_synthetic("further parts")
            pool.ask(connection, part, take)


class InFlightRead(InFlightRequest):
    """A question that any node answers."""

    __slots__ = ()

    def send(self) -> bool:
        """Send it."""
        self.path.pool.ask(self.queue.connection, self.prepared.parts[0].part, self._take)
        return True

    def _take(self, answer: Answer) -> None:
        self.answers.append(answer)
        path, frame = self.path, answer.frame
        if frame is None:
            self.good = False
        elif not path.known_answers.knows(answer.part, frame):
            self.good = False
            path.pool.obey_throttle(answer)
            self._look_at(answer, frame)
        path.ended(self)

    def _look_at(self, answer: Answer, frame: bytes) -> None:
        """Decode an answer, unless another one was decoded just now."""
        path = self.path
        self.stands_for = path.sample()
        if not self.stands_for:
            return
        if path.context.leaders.moved(self.answers):
            path.pool.spawn(path.context.leaders.refresh(), CONTROL)
        if answer.body and not answer.errors and not answer.throttle_ms:
            path.known_answers.add(answer.part, frame)


class InFlightFetch(InFlightRequest):
    """A fetch: what it asks is known, and positions and sessions are put in when its turn has come."""

    __slots__ = ()

    def send(self) -> bool:
        """Send it to the leaders."""
        question = self.prepared.question
        assert question is not None
        context, item = self.path.context, self.item
        if missing_before_fetch(context, item, question.request.named) is not None:
            return False
        try:
            parts = fetch_parts(context, item, question)
        except (SkipRequest, CodecError):
            return False  # its handler tells why
        self.ask([(part, self._take) for part in parts])
        return True

    def _take(self, answer: Answer) -> None:
        self.path.pool.obey_throttle(answer)
        self.answers.append(answer)
        self.missing -= 1
        if self.missing:
            return
        with suppress(DecodeError):  # a response that cannot be decoded teaches nothing
            for following in learn_fetched(self.path.context, self.item, self.answers):
                self.path.pool.spawn(following, CONTROL)
        self.good = all(each.bucket is Disposition.ANSWERED and not each.errors for each in self.answers)
        self.path.ended(self)


class InFlightProduce(InFlightRequest):
    """Batches: idempotent ones get their producer and number when their turn has come."""

    __slots__ = ()

    def send(self) -> bool:
        """Send all parts."""
        parts, context = self.prepared.parts, self.path.context
        written = (batch.partition for each in parts for batch in each.batches)
        if context.order.missing_begin(written, self.item.request.first_ns) is not None:
            return False
        if not self.prepared.numbered:
            self.ask([(each.part, partial(self.take, each, each.batches)) for each in parts])
            return True
        batches = [batch for each in parts for batch in each.batches]
        version = parts[0].part.version
        numbered = numbered_now(context, self.item, version, batches, self.prepared.nodes)
        if numbered is None:
            return False
        asked, begin = [], 0
        for each in parts:
            own = tuple(numbered[begin : begin + len(each.positions)])
            begin += len(own)
            heads = tuple(
                [(position, batch.data) for position, batch in zip(each.positions, own, strict=True)]
            )
            asked.append((Part(*each.part[:-1], heads), partial(self.take, each, own)))
        self.ask(asked)
        return True

    def take(self, part: PreparedPart, batches: tuple[OutgoingBatch, ...], answer: Answer) -> None:
        """Account for the answer to a part."""
        frame, expected, context = answer.frame, part.expected, self.path.context
        if frame is not None and expected is not None and expected.matches(frame):
            offsets = [offset_at(frame, position) for position in expected.offsets]
            learn_taken(context, self.item, batches, offsets, self.prepared.captured_offsets)
            return self._end([answer])
        self.good = False
        self.path.pool.obey_throttle(answer)
        delivery = deliver(context, self.item, batches, [answer], self.prepared.captured_offsets)
        return self.path.pool.run(delivery, self.queue.connection, partial(self._delivered, answer))

    def _delivered(self, answer: Answer, answers: list[Answer] | None, _failure: Exception | None) -> None:
        self._end(answers or [answer])

    def _end(self, answers: list[Answer]) -> None:
        self.answers += answers
        self.missing -= 1
        if self.missing:
            return
        if not self.good:
            self.answers.sort(key=_is_sent_again)
        if self.prepared.produced is not None:
            self.path.context.notes.produced[self.item.request.index] = self.prepared.produced
        self.path.ended(self)


def _request_type(prepared: PreparedRequest) -> type[InFlightRequest]:
    if prepared.question is not None:
        return InFlightFetch
    return InFlightProduce if prepared.produced is not None else InFlightRead


def _is_sent_again(answer: Answer) -> bool:
    return answer.part.again
