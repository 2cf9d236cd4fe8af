"""Ready requests under way: what waits for nothing needs no course, only one object from sending to accounting."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, NamedTuple

from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import CONTROL, Answer, Part
from kdissect.replay.engine.connection_queue import ConnectionQueue
from kdissect.replay.engine.fast_path.answer_cache import AnswerCache
from kdissect.replay.engine.fast_path.prepared_requests import PreparedPart, PreparedRequest
from kdissect.replay.handlers.fetch import fetch_parts, learn_fetched
from kdissect.replay.handlers.produce_batches import OutgoingBatch, numbered_now
from kdissect.replay.handlers.produce_delivery import deliver, learn_taken
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.replay_input import ReplayItem
from kdissect.replay.net.pool import UNEXPECTED, ConnectionPool

OFFSET = 8  # bytes


class FastPath(NamedTuple):
    """What all flights of a run have in common; `landed` hears when all answers of one are in."""

    context: ReplayContext
    board: ConnectionPool
    familiar: AnswerCache
    landed: Callable[["InFlightRequest"], None]


class InFlightRequest:
    """One request on its way."""

    __slots__ = ("answers", "cause", "due_ns", "good", "item", "line", "missing", "ready", "tower")
    heeded: ClassVar[bool] = True  # errors were looked at in answers that are not good

    def __init__(
        self, tower: FastPath, line: ConnectionQueue, item: ReplayItem, ready: PreparedRequest, due_ns: int
    ) -> None:
        self.tower, self.line, self.item, self.ready = tower, line, item, ready
        self.due_ns, self.cause = due_ns, line.cause
        self.answers: list[Answer] = []
        self.missing = 1  # answers
        self.good = True  # every answer was the one that was hoped for

    def begin(self) -> bool:
        """Send it; False if it has to wait for something, or cannot be sent."""
        raise NotImplementedError

    def ask(self, asked: Sequence[tuple[Part, Callable[[Answer], None]]]) -> None:
        """Send all frames, each with who hears of its answer."""
        self.missing = len(asked)
        for number, (part, done) in enumerate(asked):
            if number:
                self.tower.board.tallies.own("further parts")
            self.tower.board.ask(self.line.connection, part, done)


class InFlightRead(InFlightRequest):
    """A question that any node answers."""

    __slots__ = ()
    heeded = False

    def begin(self) -> bool:
        """Send it."""
        self.tower.board.ask(self.line.connection, self.ready.frames[0].part, self._take)
        return True

    def _take(self, answer: Answer) -> None:
        self.answers.append(answer)
        tower, said = self.tower, answer.frame
        if said is None or not tower.familiar.knows(answer.part, said):
            self.good = False
            tower.board.heed(answer)
        tower.landed(self)


class InFlightFetch(InFlightRequest):
    """A fetch: what it asks is known, where each partition has got to is put in now."""

    __slots__ = ()

    def begin(self) -> bool:
        """Send it to the leaders."""
        question = self.ready.question
        assert question is not None
        try:
            parts = fetch_parts(self.tower.context, self.item, question)
        except (SkipRequest, *UNEXPECTED):
            return False  # its course says why
        self.ask([(part, self._take) for part in parts])
        return True

    def _take(self, answer: Answer) -> None:
        self.tower.board.heed(answer)
        self.answers.append(answer)
        self.missing -= 1
        if not self.missing:
            with suppress(*UNEXPECTED):  # an answer that makes no sense teaches nothing
                for following in learn_fetched(self.tower.context, self.item, self.answers):
                    self.tower.board.spawn(following, CONTROL)
            self.good = all(each.bucket is Disposition.ANSWERED and not each.errors for each in self.answers)
            self.tower.landed(self)


class InFlightProduce(InFlightRequest):
    """Batches: idempotent ones get their producer and number now."""

    __slots__ = ()

    def begin(self) -> bool:
        """Send all frames."""
        frames = self.ready.frames
        if not self.ready.numbered:
            self.ask([(frame.part, partial(self._take, frame, frame.sendings)) for frame in frames])
            return True
        sendings = [each for frame in frames for each in frame.sendings]
        version = frames[0].part.version
        numbered = numbered_now(self.tower.context, self.item, version, sendings, self.ready.nodes)
        if numbered is None:
            return False
        asked, begin = [], 0
        for frame in frames:
            mine = tuple(numbered[begin : begin + len(frame.places)])
            begin += len(mine)
            heads = tuple([(at, each.data) for at, each in zip(frame.places, mine, strict=True)])
            asked.append((Part(*frame.part[:-1], heads), partial(self._take, frame, mine)))
        self.ask(asked)
        return True

    def _take(self, frame: PreparedPart, sendings: tuple[OutgoingBatch, ...], answer: Answer) -> None:
        said, hoped, context = answer.frame, frame.expected, self.tower.context
        if said is not None and hoped is not None and hoped.holds(said):
            bases = [int.from_bytes(said[at : at + OFFSET], "big", signed=True) for at in hoped.offsets]
            learn_taken(context, self.item, sendings, bases, self.ready.offsets)
            return self._land([answer])
        self.good = False
        self.tower.board.heed(answer)
        delivery = deliver(context, self.item, sendings, [answer], self.ready.offsets)
        return self.tower.board.run(delivery, self.line.connection, partial(self._delivered, answer))

    def _delivered(self, answer: Answer, answers: list[Answer] | None, _failed: Exception | None) -> None:
        self._land(answers or [answer])

    def _land(self, answers: list[Answer]) -> None:
        self.answers += answers
        self.missing -= 1
        if not self.missing:
            if not self.good:
                self.answers.sort(key=sent_again)
            self.tower.landed(self)


def in_flight_type(ready: PreparedRequest) -> type[InFlightRequest]:
    """Say what kind of flight a request becomes."""
    if ready.question is not None:
        return InFlightFetch
    return InFlightProduce if ready.produced is not None else InFlightRead


def sent_again(answer: Answer) -> bool:
    """Tell whether an answer is to what was refused before."""
    return answer.part.again
