"""What a run knows of each captured request when it has ended: numbers, and where the answers lie on the shelf."""

from dataclasses import dataclass, field

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
    answers: list[tuple[int, Place]] = field(default_factory=list)  # (version, frame)

    @property
    def lag_ns(self) -> int | None:
        """How much later than due it was sent."""
        return None if self.sent_ns is None or self.due_ns is None else max(self.sent_ns - self.due_ns, 0)


def bucket_of(answers: list[Answer]) -> Bucket:
    """Say how a request ended whose parts ended thus: by the worst of them."""
    found = {answer.bucket for answer in answers}
    return next((bucket for bucket in WORST_FIRST if bucket in found), Bucket.FAILED_TO_SEND)
