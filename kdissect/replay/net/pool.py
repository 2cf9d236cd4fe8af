"""Runs courses over links, on a time that it is told: it opens links, hands out answers, and lets nothing wait for ever.

Whoever drives it (`transport`, or a test) calls `wake` when `next_ns` has come, and the links' own methods
when bytes do.
"""

import heapq
import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache, partial

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.schema.registry import (
    APIS,
    api_name,
    fields_at,
    response_header_version,
)
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, Answer, Ask, Coroutine, Part, Reply, Spawn, T, Until
from kdissect.replay.net.auth import (
    Handshake,
    HandshakeFailed,
    authenticate,
    shake_hands,
)
from kdissect.replay.net.connection import BrokerTransport, Connection
from kdissect.replay.safety import AbortRun
from kdissect.replay.settings import Address, ReplaySettings
from kdissect.replay.target.cluster import TargetCluster

UNEXPECTED = (LookupError, TypeError, ValueError, AttributeError, struct.error)
TICK_NS = 100_000_000  # how often deadlines are looked at
AGAIN_AFTER = 0.85  # of a SASL session's life
NO_LINKS: dict[int, Connection] = {}


@dataclass(slots=True)
class PoolCounters:
    """What the replayer did of its own accord, and what happened to its connections."""

    synthetic: dict[str, int] = field(default_factory=dict)
    opened: int = 0
    refused: int = 0
    refused_in_a_row: int = 0
    closed_by_peer: int = 0
    throttled: int = 0
    throttle_ms: int = 0

    def own(self, name: str, times: int = 1) -> None:
        """Count something synthetic."""
        self.synthetic[name] = self.synthetic.get(name, 0) + times

    def add(self, other: "PoolCounters") -> None:
        """Add what another process counted."""
        for name, times in other.synthetic.items():
            self.own(name, times)
        self.opened += other.opened
        self.refused += other.refused
        self.closed_by_peer += other.closed_by_peer
        self.throttled += other.throttled
        self.throttle_ms += other.throttle_ms


class ConnectionPool:
    """See the module. `nonce` makes random text for SCRAM."""

    def __init__(
        self,
        settings: ReplaySettings,
        topology: TargetCluster,
        wire: BrokerTransport,
        nonce: Callable[[], str],
    ) -> None:
        self.settings, self.topology, self.wire = settings, topology, wire
        self.tallies = PoolCounters()
        self.now_ns = 0
        self.failure: Exception | None = None  # why nothing can go on
        self.hung_up: Callable[[], None] = _nobody_asked  # the target closed a link
        self.links: dict[tuple[Hashable, int], Connection] = {}
        self._owned: dict[Hashable, dict[int, Connection]] = {}
        self._nonce = nonce
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._next_tick = 0
        self._handshakes: dict[Connection, Handshake] = {}

    # Time

    @property
    def next_ns(self) -> int:
        """When to wake it at the latest."""
        return min(self._timers[0][0], self._next_tick) if self._timers else self._next_tick

    def wake(self, now_ns: int) -> None:
        """Do what is due."""
        self.now_ns = max(now_ns, self.now_ns)
        if self.now_ns >= self._next_tick:
            self._next_tick = self.now_ns + TICK_NS
            for link in list(self.links.values()):
                if link.expire(self.now_ns):
                    self.drop(link)
                else:
                    link.release(self.now_ns)
        while self._timers and self._timers[0][0] <= self.now_ns:
            heapq.heappop(self._timers)[2]()

    def at(self, time_ns: int, what: Callable[[], None]) -> None:
        """Do something at a time."""
        self._count += 1
        heapq.heappush(self._timers, (time_ns, self._count, what))

    # Courses

    def run(
        self,
        coroutine: Coroutine[T],
        owner: Hashable,
        done: Callable[[T | None, Exception | None], None],
        sent: Callable[[], None] | None = None,
    ) -> None:
        """Drive a coroutine; `sent` hears when its first frames that are not synthetic are on their way."""
        self._go_on(coroutine, owner, done, sent, None)

    def spawn(self, coroutine: Coroutine[object], owner: Hashable) -> None:
        """Drive a coroutine whose result nobody waits for."""
        self.run(coroutine, owner, _nobody_waits)

    def _go_on(
        self,
        coroutine: Coroutine[T],
        owner: Hashable,
        done: Callable[[T | None, Exception | None], None],
        sent: Callable[[], None] | None,
        reply: Reply,
    ) -> None:
        try:
            effect = coroutine.send(reply)
            while isinstance(effect, Spawn):
                self.spawn(effect.coroutine, effect.owner)
                effect = coroutine.send(None)
        except StopIteration as stop:
            return done(stop.value, None)
        except (SkipRequest, AbortRun, HandshakeFailed) as refused:
            return done(None, refused)
        except (
            UNEXPECTED
        ) as wrong:  # captured bytes can say anything: whatever a course trips over is skipped, and said
            why = f"a value that was not expected: {type(wrong).__name__} {wrong}"
            return done(None, SkipRequest(Disposition.UNDECODABLE, why))
        if isinstance(effect, Ask):
            whose = owner if effect.owner is None else effect.owner
            self._ask(effect, whose, lambda answers: self._go_on(coroutine, owner, done, sent, answers))
            if sent and not effect.synthetic:
                sent()
        elif isinstance(effect, Until):
            self._until(effect, lambda opened: self._go_on(coroutine, owner, done, sent, opened))
        else:
            self.at(self.now_ns + effect.ns, lambda: self._go_on(coroutine, owner, done, sent, None))
        return None

    def _ask(self, ask: Ask, owner: Hashable, go_on: Callable[[list[Answer]], None]) -> None:
        if len(ask.parts) == 1 and not ask.synthetic:  # nearly always

            def alone(answer: Answer) -> None:
                self.heed(answer)
                go_on([answer])

            return self.ask(owner, ask.parts[0], alone)
        answers: list[Answer | None] = [None] * len(ask.parts)
        missing = len(ask.parts)
        if not missing:
            return go_on([])

        def take(index: int, answer: Answer) -> None:
            nonlocal missing
            answers[index] = answer
            missing -= 1
            self.heed(answer)
            if not missing:
                go_on([each for each in answers if each is not None])

        for index, part in enumerate(ask.parts):
            if ask.synthetic or index:
                self.tallies.own(api_name(part.key) if ask.synthetic else "further parts")
            self.ask(owner, part, partial(take, index))
        return None

    def ask(self, owner: Hashable, part: Part, done: Callable[[Answer], None]) -> None:
        """Send one part for an owner; `done` hears of its end, and has the answer heeded."""
        try:
            link = self.link(owner, part.node)
        except AbortRun as refusing:
            self.failure = refusing
            done(Answer(part, Disposition.FAILED_TO_SEND, node=part.node))
        else:
            link.ask(part, done, self.now_ns)

    def _until(self, until: Until, go_on: Callable[[bool], None]) -> None:
        gate, ended = until.gate, False

        def end(opened: bool) -> None:
            nonlocal ended
            if not ended:
                ended = True
                go_on(opened)

        if gate.opened:
            return end(True)
        gate.waiting.append(lambda: end(True))
        deadline = int(self.settings.dependency_deadline_s * 1e9)
        self.at(self.now_ns + deadline, lambda: end(gate.opened))
        return None

    def heed(self, answer: Answer) -> None:
        """Be silent as long as the target asks (KIP-219)."""
        if answer.frame is None or answer.part.version < 1:
            return
        throttle = answer.throttle_ms = throttle_of(answer)
        if throttle > 0:
            self.tallies.throttled += 1
            self.tallies.throttle_ms += throttle
            for link in self.links.values():
                if link.node == answer.node:
                    until = self.now_ns + throttle * 1_000_000
                    link.muted_until_ns = max(link.muted_until_ns, until)
                    self.at(until, partial(self._release, link))

    def _release(self, link: Connection) -> None:
        link.release(self.now_ns)

    # Links

    def link(self, owner: Hashable, node: int) -> Connection:
        """Give the owner's link to a node, a new one if there is none; ANY is whichever it has, else the first node."""
        if node == ANY:
            for mine in self._owned.get(owner, NO_LINKS).values():
                if not mine.closed:
                    return mine
            node = self._home(owner)
        known = self.links.get((owner, node))
        if known is not None and not known.closed:
            return known
        address = self.topology.nodes.get(node) or self.settings.target[node % len(self.settings.target)]
        link = Connection(owner, node, address, self.wire, int(self.settings.answer_deadline_s * 1e9))
        self.links[owner, node] = link
        self._owned.setdefault(owner, {})[node] = link
        self.topology.admit(address)
        self.wire.connect(link, address)
        return link

    def open(self, owner: Hashable, node: int) -> None:
        """Have a link made that will be wanted soon."""
        try:
            self.link(owner, node)
        except AbortRun as refusing:
            self.failure = refusing

    def _home(self, owner: Hashable) -> int:
        nodes = sorted(self.topology.nodes)
        return nodes[hash(owner) % len(nodes)] if nodes else 0

    def connected(self, link: Connection, peer: Address) -> None:
        """Hear that a link has its connection: shake hands, if it did not lead to where nothing may be sent."""
        try:
            self.topology.admit_peer(peer)
        except AbortRun as refusing:
            self.failure = refusing
            return self.drop(link)
        self.tallies.opened += 1
        self.tallies.refused_in_a_row = 0
        self._handshakes[link] = shake_hands(
            self.settings.credentials, self.topology.learn_versions, self._nonce
        )
        return self._shake(link, None)

    def refused(self, link: Connection, why: str) -> None:
        """Hear that a link got no connection."""
        self.tallies.refused += 1
        self.tallies.refused_in_a_row += 1
        if not self.topology.nodes:
            self.failure = AbortRun(f"{link.address[0]}:{link.address[1]} cannot be reached: {why}")
        self.drop(link)

    def lost(self, link: Connection) -> None:
        """Hear that the peer closed a link."""
        if not link.closed:
            self.tallies.closed_by_peer += 1
            self.hung_up()
        self.drop(link)

    def drop(self, link: Connection) -> None:
        """Forget a link."""
        link.end(Disposition.CLOSED)
        self._handshakes.pop(link, None)
        if self.links.get((link.owner, link.node)) is link:
            del self.links[link.owner, link.node]
            self._owned.get(link.owner, {}).pop(link.node, None)

    def leave(self, owner: Hashable) -> None:
        """Close all links of an owner."""
        for link in list(self._owned.get(owner, {}).values()):
            self.drop(link)
        self._owned.pop(owner, None)

    def leave_all(self) -> None:
        """Close all links."""
        for owner in list(self._owned):
            self.leave(owner)

    def _shake(self, link: Connection, answer: Answer | None) -> None:
        handshake = self._handshakes.get(link)
        if handshake is None:
            return None
        try:
            part: Part = handshake.send(answer) if answer is not None else next(handshake)
        except StopIteration as stop:
            del self._handshakes[link]
            link.ready = True
            link.release(self.now_ns)
            if stop.value:
                self._again(link, stop.value)
            return None
        except HandshakeFailed as failed:
            self.failure = failed
            return self.drop(link)
        self.tallies.own(api_name(part.key))
        link.put(part, lambda found: self._shake(link, found), self.now_ns)
        return None

    def _again(self, link: Connection, lifetime_ms: int) -> None:
        """Say again who we are before the target forgets it."""

        def start() -> None:
            if not link.closed and self.settings.credentials:
                link.ready = False
                self._handshakes[link] = authenticate(self.settings.credentials, self._nonce)
                self._shake(link, None)

        self.at(self.now_ns + int(lifetime_ms * AGAIN_AFTER * 1e6), start)


def _nobody_waits(_result: object, _failed: Exception | None) -> None:
    """Do nothing."""


def _nobody_asked() -> None:
    """Do nothing."""


def throttle_of(answer: Answer) -> int:
    """Read how long the target asks to be left alone: the first number of a body, but of Produce the last."""
    frame, key, version = answer.frame, answer.part.key, answer.part.version
    if frame is None:
        return 0
    if key == ApiKey.PRODUCE:
        flexible = version in APIS[key].flexible
        if flexible and frame[-1]:
            return int(answer.body.get("throttle_time_ms", 0))
        return int.from_bytes(frame[-5:-1] if flexible else frame[-4:], "big", signed=True)
    at = throttle_position(key, version)
    return int.from_bytes(frame[at : at + 4], "big", signed=True) if at else 0


@cache
def throttle_position(key: int, version: int) -> int:
    """Say where the throttle time stands in a response frame; 0 if it does not stand first."""
    first = fields_at(APIS[key].response, version)[0]
    return 4 + response_header_version(key, version) if first.role == "throttle" else 0
