"""What a run knows of each captured request when it has ended: numbers, and where the answers lie on the shelf."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kdissect.replay.accounting import Bucket
from kdissect.replay.loading.shelf import Place
from kdissect.replay.steps import ANY, Answer

WORST_FIRST = (Bucket.TIMED_OUT, Bucket.CLOSED, Bucket.FAILED_TO_SEND, Bucket.NO_ANSWER_DUE, Bucket.ANSWERED)


@dataclass(slots=True)
class Result:
    """The end of one captured request."""

    index: int
    bucket: Bucket
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
    answers: tuple[tuple[int, Place], ...] = ()  # (version, frame)

    @property
    def lag_ns(self) -> int | None:
        """How much later than due it was sent."""
        return None if self.sent_ns is None or self.due_ns is None else max(self.sent_ns - self.due_ns, 0)


def result_of(index: int, answers: Sequence[Answer], put: Callable[[bytes], Place]) -> Result:
    """Give what the answers to a request's parts come to; frames are put on a shelf."""
    if len(answers) == 1:
        (answer,) = answers
        bucket = answer.bucket
        sent_ns = answer.sent_ns
        received_ns = answer.received_ns if bucket is Bucket.ANSWERED else None
    else:
        bucket = bucket_of(answers)
        sent_ns = min((each.sent_ns for each in answers if each.sent_ns is not None), default=None)
        received = [each.received_ns for each in answers if each.received_ns is not None]
        received_ns = max(received) if received and bucket is Bucket.ANSWERED else None
    result = Result(index, bucket, "", None, sent_ns, received_ns, parts=len(answers))
    if answers:
        result.node, result.version = answers[0].node, answers[0].part.version
    for answer in answers:
        result.sent_bytes += answer.sent_bytes
        if answer.frame is not None:
            result.answers += ((answer.part.version, put(answer.frame)),)
            result.throttle_ms = max(result.throttle_ms, answer.throttle_ms)
    return result


def bucket_of(answers: Sequence[Answer]) -> Bucket:
    """Say how a request ended whose parts ended thus: by the worst of them."""
    found = {answer.bucket for answer in answers}
    return next((bucket for bucket in WORST_FIRST if bucket in found), Bucket.FAILED_TO_SEND)
