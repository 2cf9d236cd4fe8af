"""What a course may ask of whoever runs it: the words between rewriting and transport.

A course is a generator. It yields a step and is sent what came of it:

    answers = yield Ask((Part(...), Part(...)))      a list with one Answer for each part, in order
    opened  = yield Until(gate)                      True, or False when the deadline passed first
    _       = yield Pause(ns)                        None, later

It ends with the answers that count for its captured request, or raises `SkipRequest` to skip it. What is asked with
`synthetic` is the replayer's own, and is counted apart.
"""

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from kdissect.protocol.codec.messages import decode_response
from kdissect.replay.disposition import Disposition
from kdissect.replay.rewrite.references import errors_of

ANY = -1  # whichever node
SMALL = 256  # bytes of an answer that is remembered: most say only that all went well, again and again


class Part(NamedTuple):
    """One frame for one node."""

    key: int
    version: int
    body: dict[str, Any]
    node: int = ANY
    client_id: str | None = None
    answerless: bool = False  # acks = 0: none will come
    wait_ms: int = 0  # how long the target may take before it answers, by the request's own words
    ready: bytes = b""  # the whole frame, encoded already, all but its correlation id
    again: bool = False  # what was refused for the moment, sent again: its answer is the one that counts
    heads: tuple[
        tuple[int, bytes], ...
    ] = ()  # (position in `ready`, what is sent in the place of what is there)


class Read(NamedTuple):
    """An answer decoded, and its errors in wire order. It may stand for many answers, so nobody changes it."""

    body: dict[str, Any]
    errors: tuple[int, ...]


UNREADABLE, WELL = Read({}, ()), Read({"error_code": 0}, ())


def _read(key: int, version: int, said: bytes) -> Read:
    """Decode what follows the correlation id."""
    whole = decode_response(bytes(4) + said, key, version)
    if whole.body is None or whole.fault is not None:
        return UNREADABLE
    return Read(whole.body, tuple(errors_of(key, version, whole.body)))


_read_again = lru_cache(1 << 12)(_read)


class Answer:
    """What became of a part."""

    __slots__ = (
        "_read",
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
        self.held = held  # why the link did not send it at once
        self.throttle_ms = 0
        self._read: Read | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The answer decoded; empty if there is none or it makes no sense."""
        return (self._read or self._decoded()).body

    @property
    def errors(self) -> tuple[int, ...]:
        """The errors in it that are not 0, in wire order."""
        return (self._read or self._decoded()).errors

    def all_well(self) -> None:
        """Take it from who has looked that there is no error in it; all else that it says is not decoded."""
        self._read = WELL

    def _decoded(self) -> Read:
        frame, part = self.frame, self.part
        if frame is None:
            self._read = UNREADABLE
        else:
            self._read = (_read_again if len(frame) <= SMALL else _read)(part.key, part.version, frame[4:])
        return self._read


class Ask(NamedTuple):
    """Send these, all at once, and go on when all have come to an end."""

    parts: tuple[Part, ...]
    synthetic: bool = False
    owner: Hashable = None  # on whose connections, if not on those of the captured connection


@dataclass(slots=True)
class Gate:
    """Something that happens once; whoever waits for it goes on."""

    opened: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def open(self) -> None:
        """Let all who wait go on, in the order in which they came."""
        self.opened = True
        waiting, self.waiting = self.waiting, []
        for go_on in waiting:
            go_on()


class Until(NamedTuple):
    """Wait for a gate."""

    gate: Gate


class Pause(NamedTuple):
    """Wait a while."""

    ns: int


Step = Ask | Until | Pause
Course = Generator[Step, Any, list[Answer]]
Coroutine = Generator[Step, Any, Any]  # a part of a course that gives something else


def ask_one(part: Part) -> Coroutine:
    """Ask one question of the replayer's own; give its Answer."""
    answers = yield Ask((part,), synthetic=True)
    return answers[0]
