"""A connection to one node of the target, as bytes: frames, and responses in the order of requests.

In: parts to send, from the `ConnectionPool`, and bytes that arrived, from the `BrokerTransport`. Out: frames
for the transport, and an `Answer` for each part when it has ended.

A broker answers the requests of a connection strictly in order (the section "Network" of the protocol guide),
so a response is for the oldest pending request. Another correlation id is a violation of the protocol and
ends the connection. A request with acks=0 has no response. A connection begins with a handshake (see `auth`):
parts are held until it is over, and while the target throttles the connection (KIP-219).
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Protocol

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import EncodeError, encode
from kdissect.protocol.schema.registry import APIS, MESSAGES, request_header_version
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.settings import Address

LARGEST_RESPONSE = 32 << 20  # bytes; a response takes up to a hundred times its size when it is decoded
LEAST_LARGEST = 512 << 10  # bytes that every response may have, if one is due
LARGEST_OF_API: Mapping[int, int] = {
    # The most that brokers take as a message of SASL, unless sasl.server.max.receive.size says more.
    **dict.fromkeys((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), LEAST_LARGEST),
    # Clients ask for 50 MiB of records (fetch.max.bytes), and get a larger batch if it is the first.
    **dict.fromkeys((ApiKey.FETCH, ApiKey.SHARE_FETCH), 256 << 20),
}
"""API -> how many bytes a response may have, if not LARGEST_RESPONSE."""

LONGEST_WAIT_MS = (
    30 * 60_000
)  # what a request may have the target wait: as long as a session of a member lasts
CONNECTING, THROTTLED = "connecting", "throttle"  # why a part is held
CORRELATION_IDS = (1 << 31) - 16  # the last ones are special to Java clients


class BrokerTransport(Protocol):
    """Carrier of the bytes of connections."""

    def connect(self, connection: "Connection", address: Address) -> None:
        """Begin to connect; the pool is told the outcome."""

    def send(self, connection: "Connection", data: bytes) -> None:
        """Send bytes."""

    def disconnect(self, connection: "Connection") -> None:
        """Close the connection, if there is one."""


# Correlation id, deadline in ns, the answer without the response, and who is told. A plain tuple, since one
# is made for every request.
PendingRequest = tuple[int, int, Answer, Callable[[Answer], None]]


class Connection:
    """One connection; made by the pool, driven by a transport. Times are ns on the clock of the run."""

    __slots__ = (
        "_correlation_id",
        "_held",
        "_partial_frame",
        "address",
        "closed",
        "deadline_ns",
        "muted_until_ns",
        "node",
        "owner",
        "pending",
        "ready",
        "transport",
    )

    def __init__(
        self, owner: Hashable, node: int, address: Address, transport: BrokerTransport, deadline_ns: int
    ) -> None:
        self.owner, self.node, self.address, self.transport = owner, node, address, transport
        self.deadline_ns = deadline_ns  # how long a response may take
        self.pending: deque[PendingRequest] = deque()
        self.ready = False  # the handshake is over
        self.closed = False
        self.muted_until_ns = 0  # the target throttles it until then
        self._held: deque[tuple[Part, Callable[[Answer], None], str]] = deque()  # with the reason
        self._partial_frame = bytearray()  # the bytes of a frame that is not complete
        self._correlation_id = 0  # of the last request

    @property
    def idle(self) -> bool:
        """Return whether no request is pending or held."""
        return not self.pending and not self._held

    def ask(self, part: Part, done: Callable[[Answer], None], now_ns: int) -> None:
        """Send a part, or hold it until the connection is ready; `done` is called when the part has ended."""
        if self.closed:
            done(Answer(part, Disposition.FAILED_TO_SEND, node=self.node))
        elif self.ready and not self._held and now_ns >= self.muted_until_ns:
            self.put(part, done, now_ns)
        else:
            muted = self.ready and now_ns < self.muted_until_ns
            self._held.append((part, done, THROTTLED if muted else CONNECTING))

    def put(self, part: Part, done: Callable[[Answer], None], now_ns: int, held: str = "") -> None:
        """Send a part now; `held` is why it was not sent before."""
        correlation_id = self._correlation_id = self._correlation_id % CORRELATION_IDS + 1
        try:
            frame = encode_part(part, correlation_id)
        except EncodeError:  # a name that has grown beyond what its field can hold
            return done(Answer(part, Disposition.FAILED_TO_SEND, node=self.node, held="cannot be encoded"))
        answer = Answer(part, Disposition.NO_ANSWER_DUE, None, now_ns, None, self.node, len(frame) - 4, held)
        if not part.answerless:
            deadline_ns = now_ns + self.deadline_ns + wait_ns_of(part)
            self.pending.append((correlation_id, deadline_ns, answer, done))
        self.transport.send(self, frame)
        if part.answerless:
            done(answer)
        return None

    def takes(self, now_ns: int) -> bool:
        """Return whether what is sent now goes out at once."""
        return self.ready and not self._held and now_ns >= self.muted_until_ns and not self.closed

    def put_pieces(
        self, pieces: list[bytes | memoryview], wait_ns: int, answer: Answer, done: Callable[[Answer], None]
    ) -> None:
        """Send a frame that is encoded, in pieces, of which the second is left for the correlation id.

        It goes out at `answer.sent_ns`; `wait_ns` is how long the target may take before it responds.
        """
        correlation_id = self._correlation_id = self._correlation_id % CORRELATION_IDS + 1
        pieces[1] = correlation_id.to_bytes(4, "big")
        sent_ns = answer.sent_ns or 0
        self.pending.append((correlation_id, sent_ns + self.deadline_ns + wait_ns, answer, done))
        self.transport.send(self, b"".join(pieces))

    def release(self, now_ns: int) -> None:
        """Send what was held, as far as it may be sent by now."""
        while self._held and self.ready and now_ns >= self.muted_until_ns and not self.closed:
            part, done, reason = self._held.popleft()
            self.put(part, done, now_ns, reason)

    def received(self, data: bytes, now_ns: int) -> None:
        """Cut bytes that arrived into frames; each complete one ends a pending request."""
        partial = self._partial_frame
        if partial:
            partial += data
            size = int.from_bytes(partial[:4], "big", signed=True)
            if len(partial) < 4 or (4 <= size <= self._most_bytes() and len(partial) - 4 < size):
                return None
            data = bytes(partial)
            partial.clear()
        start, end = 0, len(data)
        while end - start >= 4:
            size = int.from_bytes(data[start : start + 4], "big", signed=True)
            surely = LEAST_LARGEST if self.pending else 4
            if size < 4 or (size > surely and size > self._most_bytes()):
                return self.end()
            stop = start + 4 + size
            if stop > end:
                break
            self._respond(data[start + 4 : stop], now_ns)
            start = stop
        if start < end:
            partial += data[start:]
        return None

    def _most_bytes(self) -> int:
        """Return how large the next response may be."""
        if not self.pending:
            return 4  # no response is due: whatever comes ends the connection
        return LARGEST_OF_API.get(self.pending[0][2].part.key, LARGEST_RESPONSE)

    def _respond(self, frame: bytes, now_ns: int) -> None:
        pending = self.pending
        if not pending or pending[0][0] != int.from_bytes(frame[:4], "big"):
            return self.end()
        _, _, answer, done = pending.popleft()
        answer.bucket, answer.frame, answer.received_ns = Disposition.ANSWERED, frame, now_ns
        done(answer)
        return None

    def expire(self, now_ns: int) -> bool:
        """End the connection if its oldest request is overdue, since later responses could not be told apart.

        Return whether it ended.
        """
        if self.pending and self.pending[0][1] <= now_ns:
            self.end(Disposition.TIMED_OUT)
            return True
        return False

    def end(self, disposition: Disposition = Disposition.CLOSED) -> None:
        """Close it.

        The oldest request ends as `disposition`, later ones as closed; held ones were not sent.
        """
        if self.closed:
            return
        self.closed = True
        self.transport.disconnect(self)
        pending, self.pending = self.pending, deque()
        held, self._held = self._held, deque()
        for _, _, answer, done in pending:
            answer.bucket = disposition
            done(answer)
            disposition = Disposition.CLOSED
        for part, done, _ in held:
            done(Answer(part, Disposition.FAILED_TO_SEND, node=self.node))


def wait_ns_of(part: Part) -> int:
    """Return how long a part lets the target wait before it responds."""
    return min(part.wait_ms, LONGEST_WAIT_MS) * 1_000_000


def encode_part(part: Part, correlation_id: int) -> bytes:
    """Return the frame of a part, its length in front.

    Raise EncodeError for a value that does not fit, ValueError for a field that its version does not have.
    """
    ready = part.ready
    if ready:
        if not part.heads:
            return b"".join((ready[:8], correlation_id.to_bytes(4, "big"), memoryview(ready)[12:]))
        return _overlaid(ready, correlation_id, part.heads)
    front, body = (
        _header(part.key, part.version, part.client_id),
        encode(APIS[part.key].request, part.version, part.body),
    )
    size = (len(front) + 4 + len(body)).to_bytes(4, "big")
    return b"".join((size, front[:4], correlation_id.to_bytes(4, "big"), front[4:], body))


@lru_cache(1 << 12)
def _header(key: int, version: int, client_id: str | None) -> bytes:
    """Return the header of a request, without its correlation id."""
    values = {"request_api_key": key, "request_api_version": version, "client_id": client_id}
    header_version = request_header_version(key, version)
    header = encode(MESSAGES["RequestHeader"], header_version, values | {"correlation_id": 0})
    return header[:4] + header[8:]


def _overlaid(ready: bytes, correlation_id: int, heads: tuple[tuple[int, bytes], ...]) -> bytes:
    """Return a frame with new bytes at some positions, copied once. Raise ValueError if they overlap."""
    frame = memoryview(ready)
    pieces: list[bytes | memoryview] = [ready[:8], correlation_id.to_bytes(4, "big")]
    copied = 12
    for start, head in heads:
        if start < copied:
            raise ValueError("heads out of order")
        pieces += (frame[copied:start], head)
        copied = start + len(head)
    pieces.append(frame[copied:])
    return b"".join(pieces)
