"""Ready requests under way: what waits for nothing needs no course, only one object from sending to accounting."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from kdissect.replay.accounting import Bucket
from kdissect.replay.courses.fetch import Question, learn, parts_now
from kdissect.replay.courses.produce import Sending, delivered, learn_taken, numbered_now
from kdissect.replay.courses.stage import Stage
from kdissect.replay.linking.switchboard import UNEXPECTED, Switchboard
from kdissect.replay.loading.items import Item
from kdissect.replay.playing.lines import Line
from kdissect.replay.playing.ready import Frame, Ready
from kdissect.replay.rewriting.roles import Refused
from kdissect.replay.steps import Answer, Part

OFFSET = 8  # bytes


class Flight:
    """One request on its way; `landed` hears when all of its answers are in."""

    __slots__ = (
        "_board", "_missing", "_stage", "answers", "cause", "due_ns", "good", "heeded", "item", "landed", "line", "ready",
    )  # fmt: skip

    def __init__(
        self,
        stage: Stage,
        board: Switchboard,
        line: Line,
        item: Item,
        ready: Ready,
        landed: Callable[["Flight"], None],
    ) -> None:
        self.line, self.item, self.ready, self.landed = line, item, ready, landed
        self.due_ns, self.cause = 0, ""
        self.answers: list[Answer] = []
        self.good = True  # every answer was the one that was hoped for
        self.heeded = ready.produced is not None  # errors were looked at
        self._stage, self._board, self._missing = stage, board, len(ready.frames)

    def begin(self) -> bool:
        """Send it; False if it has to wait for something, or cannot be sent."""
        question = self.ready.question
        if question is not None:
            return self._ask(question)
        numbered = self._sendings()
        if numbered is None:
            return False
        self._send(numbered)
        return True

    def _ask(self, question: Question) -> bool:
        try:
            parts = parts_now(self._stage, self.item, question)
        except (Refused, *UNEXPECTED):
            return False  # its course says why
        self.heeded, self._missing = True, len(parts)
        for number, part in enumerate(parts):
            if number:
                self._board.tallies.own("further parts")
            self._board.ask(self.line.connection, part, self._answered)
        return True

    def _answered(self, answer: Answer) -> None:
        self._board.heed(answer)
        self.answers.append(answer)
        self._missing -= 1
        if not self._missing:
            with suppress(*UNEXPECTED):  # an answer that makes no sense teaches nothing
                learn(self._stage, self.item, self.answers)
            self.good = all(each.bucket is Bucket.ANSWERED and not each.errors for each in self.answers)
            self.landed(self)

    def _sendings(self) -> Sequence[Sending] | None:
        """Give the batches with their numbers; None if something has to be waited for first."""
        frames = self.ready.frames
        if not self.ready.numbered:
            return ()
        sendings = (
            frames[0].sendings if len(frames) == 1 else [it for frame in frames for it in frame.sendings]
        )
        version = frames[0].part.version
        return numbered_now(self._stage, self.item, version, sendings, self.ready.nodes)

    def _send(self, numbered: Sequence[Sending]) -> None:
        """Send all frames."""
        begin = 0
        for number, frame in enumerate(self.ready.frames):
            part, sendings = frame.part, frame.sendings
            if numbered:
                sendings = tuple(numbered[begin : begin + len(sendings)])
                begin += len(sendings)
                heads = tuple([(at, each.data) for at, each in zip(frame.places, sendings, strict=True)])
                part = Part(*part[:-1], heads)
            if number:
                self._board.tallies.own("further parts")
            self._board.ask(self.line.connection, part, partial(self._take, frame, sendings))

    def _take(self, frame: Frame, sendings: tuple[Sending, ...], answer: Answer) -> None:
        said, hoped = answer.frame, frame.expected
        if said is not None and hoped is not None and hoped.holds(said):
            bases = [int.from_bytes(said[at : at + OFFSET], "big", signed=True) for at in hoped.offsets]
            learn_taken(self._stage, self.item, sendings, bases, self.ready.offsets)
        else:
            self.good = False
            self._board.heed(answer)
            if sendings:
                course = delivered(self._stage, self.item, sendings, [answer], self.ready.offsets)
                done = partial(self._delivered, answer)
                return self._board.run(course, self.line.connection, done)
        return self._land([answer])

    def _delivered(self, answer: Answer, answers: list[Answer] | None, _failed: Exception | None) -> None:
        self._land(answers or [answer])

    def _land(self, answers: list[Answer]) -> None:
        self.answers += answers
        self._missing -= 1
        if not self._missing:
            if not self.good:
                self.answers.sort(key=sent_again)
            self.landed(self)


def sent_again(answer: Answer) -> bool:
    """Tell whether an answer is to what was refused before."""
    return answer.part.again
