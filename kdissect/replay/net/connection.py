"""A connection to one node of the target, as bytes: frames with their lengths, answers in the order of the requests.

A broker answers the requests of a connection strictly in order, so the oldest question is the one that an answer is for; another
correlation id is an error of the protocol, and ends the link. A question with acks = 0 waits for nothing. A link first shakes
hands (see `handshake`), and holds back what it is given until that is done, and while the target asked it to be silent.
"""

import struct
from collections import deque
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Protocol

from kdissect.protocol.codec.body import encode
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    request_header_version,
)
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.settings import Address

LARGEST_FRAME = 1 << 30
CONNECTING, THROTTLED = "connecting", "throttle"  # why something is held
CORRELATIONS = (1 << 31) - 16  # the last ones are special to Java clients


class BrokerTransport(Protocol):
    """What a transport does for links."""

    def connect(self, link: "Connection", address: Address) -> None:
        """Begin to connect; `link` hears of the outcome."""

    def send(self, link: "Connection", data: bytes) -> None:
        """Put bytes on the connection."""

    def disconnect(self, link: "Connection") -> None:
        """Close the connection, if there is one."""


# What waits for its answer: correlation id, deadline in ns, the answer without what the target says, and who hears of it. A plain
# tuple, since one is made for every request.
PendingRequest = tuple[int, int, Answer, Callable[[Answer], None]]


class Connection:
    """One connection; made by the switchboard, driven by a transport."""

    __slots__ = (
        "_begun", "_correlation", "_held", "address", "asked", "closed", "deadline_ns", "muted_until_ns", "node",
        "owner", "questions", "ready", "wire",
    )  # fmt: skip

    def __init__(
        self, owner: Hashable, node: int, address: Address, wire: BrokerTransport, deadline_ns: int
    ) -> None:
        self.owner, self.node, self.address, self.wire = owner, node, address, wire
        self.deadline_ns = deadline_ns  # of an answer
        self.questions: deque[PendingRequest] = deque()
        self.ready = self.closed = False
        self.muted_until_ns = 0
        self.asked = 0
        self._held: deque[tuple[Part, Callable[[Answer], None], str]] = deque()
        self._begun = bytearray()  # the part of a frame that has come
        self._correlation = 0

    @property
    def idle(self) -> bool:
        """Whether nothing waits on it."""
        return not self.questions and not self._held

    @property
    def holding(self) -> bool:
        """Whether frames wait to be sent."""
        return bool(self._held)

    def ask(self, part: Part, done: Callable[[Answer], None], now_ns: int) -> None:
        """Send a part, or hold it until the link is ready; `done` hears of the end of it."""
        if self.closed:
            done(Answer(part, Disposition.FAILED_TO_SEND, node=self.node))
        elif self.ready and not self._held and now_ns >= self.muted_until_ns:
            self.put(part, done, now_ns)
        else:
            self._held.append(
                (part, done, THROTTLED if self.ready and now_ns < self.muted_until_ns else CONNECTING)
            )

    def put(self, part: Part, done: Callable[[Answer], None], now_ns: int, held: str = "") -> None:
        """Send a part now."""
        correlation = self._correlation = self._correlation % CORRELATIONS + 1
        try:
            frame = encode_part(part, correlation)
        except (ValueError, TypeError, LookupError, struct.error):
            return done(Answer(part, Disposition.FAILED_TO_SEND, node=self.node, held="cannot be encoded"))
        self.asked += 1
        answer = Answer(part, Disposition.NO_ANSWER_DUE, None, now_ns, None, self.node, len(frame) - 4, held)
        if not part.answerless:
            deadline_ns = now_ns + self.deadline_ns + part.wait_ms * 1_000_000
            self.questions.append((correlation, deadline_ns, answer, done))
        self.wire.send(self, frame)
        if part.answerless:
            done(answer)
        return None

    def release(self, now_ns: int) -> None:
        """Send what was held, if it may be sent by now."""
        while self._held and self.ready and now_ns >= self.muted_until_ns and not self.closed:
            part, done, why = self._held.popleft()
            self.put(part, done, now_ns, why)

    def received(self, data: bytes, now_ns: int) -> None:
        """Take in bytes; answers go to those who asked."""
        begun = self._begun
        if begun:
            begun += data
            size = int.from_bytes(begun[:4], "big", signed=True)
            if len(begun) < 4 or (4 <= size <= LARGEST_FRAME and len(begun) - 4 < size):
                return None
            data = bytes(begun)
            begun.clear()
        at, end = 0, len(data)
        while end - at >= 4:
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            if not 4 <= size <= LARGEST_FRAME:
                return self.end()
            stop = at + 4 + size
            if stop > end:
                break
            self._answered(data[at + 4 : stop], now_ns)
            at = stop
        if at < end:
            begun += data[at:]
        return None

    def _answered(self, frame: bytes, now_ns: int) -> None:
        questions = self.questions
        if not questions or questions[0][0] != int.from_bytes(frame[:4], "big"):
            return self.end()
        _, _, answer, done = questions.popleft()
        answer.bucket, answer.frame, answer.received_ns = Disposition.ANSWERED, frame, now_ns
        done(answer)
        return None

    def expire(self, now_ns: int) -> bool:
        """End the link if its oldest question waits for too long: what follows could not be told from what is late."""
        if self.questions and self.questions[0][1] <= now_ns:
            self.end(Disposition.TIMED_OUT)
            return True
        return False

    def end(self, bucket: Disposition = Disposition.CLOSED) -> None:
        """Close it; the oldest question ends in `bucket`, those behind it as closed, what was held was never sent."""
        if self.closed:
            return
        self.closed = True
        self.wire.disconnect(self)
        questions, self.questions = self.questions, deque()
        held, self._held = self._held, deque()
        for _, _, answer, done in questions:
            answer.bucket = bucket
            done(answer)
            bucket = Disposition.CLOSED
        for part, done, _ in held:
            done(Answer(part, Disposition.FAILED_TO_SEND, node=self.node))


def encode_part(part: Part, correlation: int) -> bytes:
    """Encode a part with its length in front. Raises ValueError and struct.error for what its version cannot say."""
    ready = part.ready
    if ready:
        if not part.heads:
            return b"".join((ready[:8], correlation.to_bytes(4, "big"), memoryview(ready)[12:]))
        return _overlaid(ready, correlation, part.heads)
    front, body = (
        _front(part.key, part.version, part.client_id),
        encode(APIS[part.key].request, part.version, part.body),
    )
    size = (len(front) + 4 + len(body)).to_bytes(4, "big")
    return b"".join((size, front[:4], correlation.to_bytes(4, "big"), front[4:], body))


@lru_cache(1 << 12)
def _front(key: int, version: int, client_id: str | None) -> bytes:
    """Encode a request's header, without its correlation id."""
    header = {"request_api_key": key, "request_api_version": version, "client_id": client_id}
    whole = encode(
        MESSAGES["RequestHeader"], request_header_version(key, version), header | {"correlation_id": 0}
    )
    return whole[:4] + whole[8:]


def _overlaid(ready: bytes, correlation: int, heads: tuple[tuple[int, bytes], ...]) -> bytes:
    """Put new heads over a frame, in their order, and copy what is between them once. Raises ValueError where they overlap."""
    whole = memoryview(ready)
    pieces: list[bytes | memoryview] = [ready[:8], correlation.to_bytes(4, "big")]
    at = 12
    for start, head in heads:
        if start < at:
            raise ValueError("heads out of order")
        pieces += (whole[at:start], head)
        at = start + len(head)
    pieces.append(whole[at:])
    return b"".join(pieces)
