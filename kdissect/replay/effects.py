"""The effects that a coroutine may ask for: all that lies between rewriting requests and sending them.

A *coroutine* is a generator that neither owns a socket nor reads a clock. It yields an effect, whoever drives
it (the `ConnectionPool`) brings the effect about and sends the reply in, and the coroutine goes on:

| effect                        | what happens                                 | reply                    |
| ----------------------------- | -------------------------------------------- | ------------------------ |
| `Ask(parts, synthetic, owner)` | all parts are sent at once, and must end    | an `Answer` for each part |
| `Until(gate)`                 | nothing, until the gate opens or time is up  | whether the gate opened  |
| `Pause(ns)`                   | nothing, for that time                       | None                     |
| `Spawn(coroutine, owner)`     | another coroutine runs beside this one       | None, at once            |

Coroutines yield effects through `ask`, `ask_one`, `until`, `pause` and `spawn`, which know the type of the
reply. So `Coroutine[T]` says what a `yield from` returns, and the type checker sees it. A *handler* (see
`handlers`) is a coroutine that returns the answers which count for one captured request; it raises
`SkipRequest` to skip that request. An `Ask` that is `synthetic` is the replayer's own, and is counted apart.

A `Gate` opens once, and lets all who wait for it go on. Dependencies only point to requests that were
captured earlier, and every wait has a deadline, so waiting cannot go in circles.
"""

from collections.abc import Callable, Generator, Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kdissect.exchanges.filter import errors_of
from kdissect.protocol.codec.messages import DecodeError, decode_response
from kdissect.replay.disposition import Disposition

ANY = -1  # node id: whichever node
CONTROL = "control"  # owns the connections for what belongs to no captured connection
REMEMBERED_BYTES = 256  # of a response that is decoded once for all like it: most say that all went well

T = TypeVar("T")


class Part(NamedTuple):
    """One frame for one node."""

    key: int
    version: int
    body: dict[str, Any]
    node: int = ANY
    client_id: str | None = None
    answerless: bool = False  # acks = 0: no response will come
    wait_ms: int = 0  # how long the target may take before it responds, by the request's own fields
    ready: bytes = b""  # the whole frame, if it is encoded already, but for its correlation id
    again: bool = False  # sent again after a passing error: its answer is the one that counts
    heads: tuple[tuple[int, bytes], ...] = ()  # (position in `ready`, bytes that are sent there instead)


class ResponseContent(NamedTuple):
    """A response decoded, and its errors in wire order.

    It may stand for many responses, so nobody changes it.
    """

    body: dict[str, Any]
    errors: tuple[int, ...]


class UnreadableBody(dict[str, Any]):
    """The body of a response that is missing or cannot be decoded.

    It is empty, and has no field that is required.
    """

    def __missing__(self, field: str) -> Any:
        raise DecodeError(0, f"the response has no {field}, because it is missing or cannot be decoded")


UNREADABLE = ResponseContent(UnreadableBody(), ())
WITHOUT_ERROR = ResponseContent({"error_code": 0}, ())


def _decode(key: int, version: int, data: bytes) -> ResponseContent:
    """Decode what follows the correlation id."""
    decoded = decode_response(bytes(4) + data, key, version, strict=True)
    if decoded.body is None or decoded.fault is not None:
        return UNREADABLE
    return ResponseContent(decoded.body, tuple(errors_of(key, version, decoded.body)))


_decode_again = lru_cache(1 << 12)(_decode)


class Answer:
    """Result of a part: the target's response, or why there is none."""

    __slots__ = (
        "_content",
        "bucket",
        "frame",
        "held",
        "node",
        "part",
        "received_ns",
        "sent_bytes",
        "sent_ns",
        "throttle_ms",
    )

    def __init__(
        self,
        part: Part,
        bucket: Disposition,
        frame: bytes | None = None,
        sent_ns: int | None = None,
        received_ns: int | None = None,
        node: int = ANY,
        sent_bytes: int = 0,
        held: str = "",
    ) -> None:
        self.part, self.bucket, self.frame = part, bucket, frame
        self.sent_ns, self.received_ns = sent_ns, received_ns
        self.node, self.sent_bytes = node, sent_bytes
        self.held = held  # why the connection did not send it at once
        self.throttle_ms = 0
        self._content: ResponseContent | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The response decoded; empty if there is none or it cannot be decoded."""
        return (self._content or self._decoded()).body

    @property
    def errors(self) -> tuple[int, ...]:
        """The error codes in it that are not 0, in wire order."""
        return (self._content or self._decoded()).errors

    @property
    def first_error(self) -> int:
        """The first error code in it that is not 0; 0 if there is none."""
        errors = self.errors
        return errors[0] if errors else 0

    @property
    def unsent(self) -> bool:
        """Return whether no connection to its node could be made.

        The target has got nothing, so the part may be sent again.
        """
        return self.bucket is Disposition.FAILED_TO_SEND and not self.held

    def mark_without_error(self) -> None:
        """Note that the caller has found no error in the response: it is not decoded any more."""
        self._content = WITHOUT_ERROR

    def _decoded(self) -> ResponseContent:
        frame, part = self.frame, self.part
        if frame is None:
            self._content = UNREADABLE
        else:
            decode = _decode_again if len(frame) <= REMEMBERED_BYTES else _decode
            self._content = decode(part.key, part.version, frame[4:])
        return self._content


@dataclass(slots=True)
class Gate:
    """Something that happens once; whoever waits for it goes on."""

    opened: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def open(self) -> None:
        """Wake all who wait, in the order in which they came."""
        self.opened = True
        waiting, self.waiting = self.waiting, []
        for go_on in waiting:
            go_on()


class Ask(NamedTuple):
    """Send these parts, all at once, and go on when all have come to an end."""

    parts: tuple[Part, ...]
    synthetic: bool = False
    owner: Hashable = None  # on whose connections, if not on those of the captured connection


class Until(NamedTuple):
    """Wait for a gate."""

    gate: Gate


class Pause(NamedTuple):
    """Wait a while."""

    ns: int


class Spawn(NamedTuple):
    """Run a coroutine beside this one, on the connections of an owner."""

    coroutine: "Coroutine[object]"
    owner: Hashable


Effect: TypeAlias = Ask | Until | Pause | Spawn
Reply: TypeAlias = list[Answer] | bool | None
Coroutine: TypeAlias = Generator[Effect, Reply, T]


def ask(parts: Iterable[Part], synthetic: bool = False, owner: Hashable = None) -> Coroutine[list[Answer]]:
    """Send parts; return one answer for each, in order."""
    reply = yield Ask(tuple(parts), synthetic, owner)
    assert isinstance(reply, list)
    return reply


def ask_one(part: Part) -> Coroutine[Answer]:
    """Send one part of the replayer's own; return its answer."""
    (answer,) = yield from ask((part,), synthetic=True)
    return answer


def until(gate: Gate) -> Coroutine[bool]:
    """Wait for a gate; return False if the deadline passed first."""
    return bool((yield Until(gate)))


def pause(ns: int) -> Coroutine[None]:
    """Wait a while."""
    yield Pause(ns)


def spawn(coroutine: "Coroutine[object]", owner: Hashable) -> Coroutine[None]:
    """Start a coroutine that runs beside this one."""
    yield Spawn(coroutine, owner)
