"""What a run knows of each captured request when it has ended: numbers, and where the answers lie on the shelf.

Results are kept as rows of numbers: a run that goes on for hours makes no objects that stay, which the collector would visit
again and again.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import ANY, Answer
from kdissect.replay.load.spool import SpoolSlot

ROW = struct.Struct("<17q")
MISSING = -(1 << 63)
BUCKETS = tuple(Disposition)
BUCKET_CODES = {bucket: code for code, bucket in enumerate(BUCKETS)}
ANSWERED = BUCKET_CODES[Disposition.ANSWERED]
WORST_FIRST = (
    Disposition.TIMED_OUT,
    Disposition.CLOSED,
    Disposition.FAILED_TO_SEND,
    Disposition.NO_ANSWER_DUE,
    Disposition.ANSWERED,
)


@dataclass(slots=True)
class RequestResult:
    """The end of one captured request."""

    index: int
    bucket: Disposition
    reason: str = ""
    due_ns: int | None = None
    sent_ns: int | None = None
    received_ns: int | None = None
    cause: str = ""  # of being late
    node: int = ANY
    version: int | None = None
    parts: int = 0
    sent_bytes: int = 0
    throttle_ms: int = 0
    again: int = 0  # how many of the last answers are to what was sent again
    answers: tuple[tuple[int, SpoolSlot], ...] = ()  # (version, frame)
    shelf: int = 0  # which process played it, and keeps its answers

    @property
    def lag_ns(self) -> int | None:
        """How much later than due it was sent."""
        return None if self.sent_ns is None or self.due_ns is None else max(self.sent_ns - self.due_ns, 0)


class ResultTable:
    """All results of a pass, in the order in which requests ended."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self._texts: dict[str, int] = {"": 0}
        self._more: dict[int, tuple[tuple[int, SpoolSlot], ...]] = {}  # index -> the answers behind the first

    def append(self, result: RequestResult) -> None:
        """Keep a result."""
        texts, answers = self._texts, result.answers
        version, (at, size) = answers[0] if answers else (MISSING, (0, 0))
        if len(answers) > 1:
            self._more[result.index] = answers[1:]
        self._rows += ROW.pack(
            result.index,
            BUCKET_CODES[result.bucket],
            texts.setdefault(result.reason, len(texts)) if result.reason else 0,
            MISSING if result.due_ns is None else result.due_ns,
            MISSING if result.sent_ns is None else result.sent_ns,
            MISSING if result.received_ns is None else result.received_ns,
            texts.setdefault(result.cause, len(texts)) if result.cause else 0,
            result.node,
            MISSING if result.version is None else result.version,
            result.parts,
            result.sent_bytes,
            result.throttle_ms,
            result.again,
            version,
            at,
            size,
            result.shelf,
        )

    def well(self, index: int, due_ns: int, cause: str, answer: Answer, at: int) -> None:
        """Keep that a request in one part was answered, by the frame that lies at `at`: what nearly all come to."""
        texts, version, frame = self._texts, answer.part.version, answer.frame
        assert frame is not None
        self._rows += ROW.pack(
            index,
            ANSWERED,
            0,
            due_ns,
            answer.sent_ns,
            answer.received_ns,
            texts.setdefault(cause, len(texts)) if cause else 0,
            answer.node,
            version,
            1,
            answer.sent_bytes,
            answer.throttle_ms,
            0,
            version,
            at,
            len(frame),
            0,
        )

    def extend(self, other: "ResultTable", shelf: int) -> None:
        """Take in the results of another process."""
        for result in other:
            result.shelf = shelf
            self.append(result)

    def since(self, number: int) -> "ResultTable":
        """Give those behind the first `number`."""
        part = ResultTable()
        part._rows = self._rows[number * ROW.size :]
        part._texts = dict(self._texts)
        part._more = {each: self._more[each] for each in part.indices() if each in self._more}
        return part

    def indices(self) -> list[int]:
        """Give which requests they are of."""
        return [int(each) for each in memoryview(self._rows).cast("q")[:: ROW.size // 8]]

    def __len__(self) -> int:
        return len(self._rows) // ROW.size

    def __iter__(self) -> Iterator[RequestResult]:
        texts = list(self._texts)
        for row in ROW.iter_unpack(self._rows):
            yield self._result(row, texts)

    def _result(self, row: tuple[int, ...], texts: list[str]) -> RequestResult:
        (
            index,
            bucket,
            reason,
            due,
            sent,
            received,
            cause,
            node,
            version,
            parts,
            size,
            throttle,
            again,
            *answer,
            shelf,
        ) = row
        answers: tuple[tuple[int, SpoolSlot], ...] = ()
        if answer[0] != MISSING:
            answers = ((answer[0], SpoolSlot(answer[1], answer[2])), *self._more.get(index, ()))
        return RequestResult(
            index,
            BUCKETS[bucket],
            texts[reason],
            _known(due),
            _known(sent),
            _known(received),
            texts[cause],
            node,
            _known(version),
            parts,
            size,
            throttle,
            again,
            answers,
            shelf,
        )


def _known(value: int) -> int | None:
    return None if value == MISSING else value


def result_of(index: int, answers: Sequence[Answer], put: Callable[[bytes], SpoolSlot]) -> RequestResult:
    """Give what the answers to a request's parts come to; frames are put on a shelf."""
    if len(answers) == 1:
        (answer,) = answers
        bucket = answer.bucket
        sent_ns = answer.sent_ns
        received_ns = answer.received_ns if bucket is Disposition.ANSWERED else None
    else:
        bucket = disposition_of(answers)
        sent_ns = min((each.sent_ns for each in answers if each.sent_ns is not None), default=None)
        received = [each.received_ns for each in answers if each.received_ns is not None]
        received_ns = max(received) if received and bucket is Disposition.ANSWERED else None
    result = RequestResult(index, bucket, "", None, sent_ns, received_ns, parts=len(answers))
    if answers:
        result.node, result.version = answers[0].node, answers[0].part.version
    for answer in answers:
        result.sent_bytes += answer.sent_bytes
        result.again += answer.part.again
        if answer.frame is not None:
            result.answers += ((answer.part.version, put(answer.frame)),)
            result.throttle_ms = max(result.throttle_ms, answer.throttle_ms)
    return result


def disposition_of(answers: Sequence[Answer]) -> Disposition:
    """Say how a request ended whose parts ended thus: by the worst of them."""
    found = {answer.bucket for answer in answers}
    return next((bucket for bucket in WORST_FIRST if bucket in found), Disposition.FAILED_TO_SEND)
