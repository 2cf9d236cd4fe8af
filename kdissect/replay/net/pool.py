"""Drives coroutines on connections, on a time that it is told.

It opens connections, and hands answers to who asked.

In: coroutines, with the owner on whose connections they ask (a captured connection, or `CONTROL`). Out: what
they return, or why they failed. The driver of the pool (`transport`, or a test) calls `wake` when `next_ns`
has come, and the methods of connections when bytes do. Nothing waits without a deadline.

A `SkipRequest` of a coroutine and whatever makes the run impossible are values for who started it. Any other
exception is a defect of kdissect, and is raised through the pool.
"""

import heapq
from collections.abc import Callable, Collection, Hashable
from functools import partial

from kdissect.protocol.codec.messages import DecodeError, EncodeError
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.addresses import IpAddress
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, Answer, Ask, Coroutine, Part, Reply, Spawn, T, Until
from kdissect.replay.net.auth import Handshake, HandshakeFailed, authenticate, shake_hands
from kdissect.replay.net.connection import BrokerTransport, Connection
from kdissect.replay.net.pool_counters import PoolCounters
from kdissect.replay.net.reconnect_backoff import ReconnectBackoff
from kdissect.replay.net.throttle import throttle_of
from kdissect.replay.safety import AbortRun
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.cluster import TargetCluster
from kdissect.text import format_address

TICK_NS = 100_000_000  # how often deadlines are looked at
AGAIN_AFTER = 0.85  # of a SASL session's lifetime the next login begins
SHORTEST_SESSION_NS = 1_000_000_000  # before the next login, whatever lifetime the target names
NO_CONNECTIONS: dict[int, Connection] = {}


class ConnectionPool:
    """The connections of one process.

    `nonce` makes random text for SCRAM. Times are ns on the clock of the run.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        cluster: TargetCluster,
        transport: BrokerTransport,
        nonce: Callable[[], str],
    ) -> None:
        self.counters = PoolCounters()
        self.now_ns = 0
        self.failure: Exception | None = None  # why the run cannot go on
        self.connections: dict[tuple[Hashable, int], Connection] = {}  # by owner and node
        self._settings, self._cluster, self._transport, self._nonce = settings, cluster, transport, nonce
        self._admission = cluster.admission
        self._owned: dict[Hashable, dict[int, Connection]] = {}  # by owner, by node
        self._deadline_ns = int(settings.answer_deadline_s * 1e9)
        self._told_of_loss: list[Callable[[], None]] = []  # called when the target closes or refuses one
        self._timers: list[tuple[int, int, Callable[[], None]]] = []  # a heap: time, number, what to do
        self._timer_count = 0
        self._next_tick_ns = 0
        self._handshakes: dict[Connection, Handshake] = {}
        self._backoff = ReconnectBackoff()

    # Time

    @property
    def next_ns(self) -> int:
        """Return the latest time to wake it."""
        return min(self._timers[0][0], self._next_tick_ns) if self._timers else self._next_tick_ns

    @property
    def deadline_s(self) -> float:
        """Return how long a response may take, in seconds."""
        return self._settings.answer_deadline_s

    def wake(self, now_ns: int) -> None:
        """Do what is due."""
        self.now_ns = max(now_ns, self.now_ns)
        if self.now_ns >= self._next_tick_ns:
            self._next_tick_ns = self.now_ns + TICK_NS
            for connection in list(self.connections.values()):
                if connection.expire(self.now_ns):
                    self.drop(connection)
                else:
                    connection.release(self.now_ns)
        while self._timers and self._timers[0][0] <= self.now_ns:
            heapq.heappop(self._timers)[2]()

    def at(self, time_ns: int, action: Callable[[], None]) -> None:
        """Call something at a time."""
        self._timer_count += 1
        heapq.heappush(self._timers, (time_ns, self._timer_count, action))

    # Coroutines

    def run(
        self,
        coroutine: Coroutine[T],
        owner: Hashable,
        done: Callable[[T | None, Exception | None], None],
        sent: Callable[[], None] | None = None,
    ) -> None:
        """Drive a coroutine to its end.

        `done` is called with its result or the reason why it failed, `sent` when its first parts that are not
        synthetic are on their way.
        """
        self._go_on(coroutine, owner, done, sent, None)

    def spawn(self, coroutine: Coroutine[object], owner: Hashable) -> None:
        """Drive a coroutine whose result nobody waits for."""
        self.run(coroutine, owner, _ignore)

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
        except (SkipRequest, AbortRun, HandshakeFailed) as failure:
            return done(None, failure)
        except EncodeError as failure:
            return done(None, SkipRequest(Disposition.FAILED_TO_SEND, str(failure)))
        except DecodeError as failure:
            return done(None, SkipRequest(Disposition.UNDECODABLE, str(failure)))
        if isinstance(effect, Ask):
            asking = owner if effect.owner is None else effect.owner
            self._ask(effect, asking, lambda answers: self._go_on(coroutine, owner, done, sent, answers))
            if sent and not effect.synthetic:
                sent()
        elif isinstance(effect, Until):
            self._until(effect, lambda opened: self._go_on(coroutine, owner, done, sent, opened))
        else:
            self.at(self.now_ns + effect.ns, lambda: self._go_on(coroutine, owner, done, sent, None))
        return None

    def _ask(self, ask: Ask, owner: Hashable, go_on: Callable[[list[Answer]], None]) -> None:
        if len(ask.parts) == 1 and not ask.synthetic:  # nearly always

            def take_only(answer: Answer) -> None:
                self.obey_throttle(answer)
                go_on([answer])

            return self.ask(owner, ask.parts[0], take_only)
        answers: list[Answer | None] = [None] * len(ask.parts)
        missing = len(ask.parts)
        if not missing:
            return go_on([])

        def take(number: int, answer: Answer) -> None:
            nonlocal missing
            answers[number] = answer
            missing -= 1
            self.obey_throttle(answer)
            if not missing:
                go_on([each for each in answers if each is not None])

        for number, part in enumerate(ask.parts):
            if ask.synthetic or number:
                self.counters.add_synthetic(api_name(part.key) if ask.synthetic else "further parts")
            self.ask(owner, part, partial(take, number))
        return None

    def ask(self, owner: Hashable, part: Part, done: Callable[[Answer], None]) -> None:
        """Send one part for an owner.

        `done` is called with its answer, and has it obeyed (see `obey_throttle`).
        """
        try:
            connection = self.connection(owner, part.node)
        except AbortRun as failure:
            self.failure = failure
            done(Answer(part, Disposition.FAILED_TO_SEND, node=part.node))
        else:
            connection.ask(part, done, self.now_ns)

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
        deadline_ns = int(self._settings.dependency_deadline_s * 1e9)
        self.at(self.now_ns + deadline_ns, lambda: end(gate.opened))
        return None

    def obey_throttle(self, answer: Answer) -> None:
        """Send nothing to a node for as long as its response asks for (KIP-219), at most for a deadline."""
        if answer.frame is None or answer.part.version < 1:
            return
        throttle_ms = answer.throttle_ms = throttle_of(answer)
        if throttle_ms > 0:
            self.counters.throttled += 1
            self.counters.throttle_ms += throttle_ms
            until_ns = self.now_ns + min(throttle_ms * 1_000_000, self._deadline_ns)
            for connection in self.connections.values():
                if connection.node == answer.node:
                    connection.muted_until_ns = max(connection.muted_until_ns, until_ns)
                    self.at(until_ns, partial(self._release, connection))

    def _release(self, connection: Connection) -> None:
        connection.release(self.now_ns)

    # Connections

    def on_connection_lost(self, action: Callable[[], None]) -> None:
        """Have something called whenever the target closes a connection, or refuses one."""
        self._told_of_loss.append(action)

    def connection(self, owner: Hashable, node: int) -> Connection:
        """Return the owner's connection to a node, a new one if there is none.

        ANY is whichever node the owner is connected to, or else one that its name decides. Raise AbortRun for
        an address that must not be connected to.
        """
        if node == ANY:
            for own in self._owned.get(owner, NO_CONNECTIONS).values():
                if not own.closed:
                    return own
            node = self._node_of(owner)
        known = self.connections.get((owner, node))
        if known is not None and not known.closed:
            return known
        bootstrap = self._settings.target
        address = self._cluster.nodes.get(node) or bootstrap[node % len(bootstrap)]
        self._admission.admit(address)
        made = Connection(owner, node, address, self._transport, self._deadline_ns)
        self.connections[owner, node] = made
        self._owned.setdefault(owner, {})[node] = made
        connect = partial(self._connect, made)
        again_ns = self._backoff.end_ns(owner, node)
        if again_ns > self.now_ns:
            self.at(again_ns, connect)
        else:
            connect()
        return made

    def _connect(self, connection: Connection) -> None:
        if not connection.closed:
            self._transport.connect(connection, connection.address)

    def open(self, owner: Hashable, node: int) -> None:
        """Make a connection that will be wanted soon."""
        try:
            self.connection(owner, node)
        except AbortRun as failure:
            self.failure = failure

    def _node_of(self, owner: Hashable) -> int:
        """Return the node that an owner's name decides, or the next one that it could connect to."""
        nodes = sorted(self._cluster.nodes)
        if not nodes:
            return 0
        first = hash(owner) % len(nodes)
        in_turn = nodes[first:] + nodes[:first]
        return next((node for node in in_turn if not self._backoff.end_ns(owner, node)), in_turn[0])

    def resolved(self, connection: Connection, found: Collection[IpAddress]) -> bool:
        """Return whether a connection may be made to all addresses of its host; it is dropped if not."""
        return self._admitted(connection, lambda: self._admission.admit_resolved(connection.address, found))

    def _admitted(self, connection: Connection, check: Callable[[], None]) -> bool:
        try:
            check()
        except AbortRun as failure:
            self.failure = failure
            self.drop(connection)
            return False
        return True

    def connected(self, connection: Connection, peer: IpAddress) -> None:
        """Begin the handshake of a connection that is made, unless it leads to where nothing may be sent."""
        if not self._admitted(connection, lambda: self._admission.admit_peer(connection.address, peer)):
            return None
        self.counters.opened += 1
        self._handshakes[connection] = shake_hands(
            self._settings.credentials, self._cluster.learn_versions, self._nonce
        )
        return self._shake(connection, None)

    def refused(self, connection: Connection, reason: str) -> None:
        """Note that a connection could not be made."""
        counters = self.counters
        counters.refused += 1
        counters.refused_in_a_row += 1
        counters.last_refusal = f"{format_address(*connection.address)}: {reason}"
        if counters.refused_in_a_row == 1:
            counters.refused_since_ns = self.now_ns
        self._backoff.failed(connection.owner, connection.node, self.now_ns)
        if not self._cluster.nodes:
            self.failure = AbortRun(f"{format_address(*connection.address)} cannot be reached: {reason}")
        self._tell_of_loss()
        self.drop(connection)

    def lost(self, connection: Connection) -> None:
        """Note that the target closed a connection."""
        if not connection.closed:
            self.counters.closed_by_peer += 1
            self._tell_of_loss()
        self.drop(connection)

    def _tell_of_loss(self) -> None:
        for action in self._told_of_loss:
            action()

    def drop(self, connection: Connection) -> None:
        """Close a connection and forget it."""
        connection.end(Disposition.CLOSED)
        self._handshakes.pop(connection, None)
        key = connection.owner, connection.node
        if self.connections.get(key) is connection:
            del self.connections[key]
            self._owned.get(connection.owner, {}).pop(connection.node, None)

    def leave(self, owner: Hashable) -> None:
        """Close all connections of an owner."""
        for connection in list(self._owned.get(owner, NO_CONNECTIONS).values()):
            self.drop(connection)
        self._owned.pop(owner, None)

    def leave_all(self) -> None:
        """Close all connections."""
        for owner in list(self._owned):
            self.leave(owner)

    def _shake(self, connection: Connection, answer: Answer | None) -> None:
        """Go on with a handshake."""
        handshake = self._handshakes.get(connection)
        if handshake is None:
            return None
        try:
            part: Part = handshake.send(answer) if answer is not None else next(handshake)
        except StopIteration as stop:
            del self._handshakes[connection]
            connection.ready = True
            self.counters.refused_in_a_row = 0
            self._backoff.made(connection.owner, connection.node)
            connection.release(self.now_ns)
            if stop.value > 0:
                self._log_in_later(connection, stop.value)
            return None
        except HandshakeFailed as failure:
            if answer is not None and answer.frame is None and self._cluster.nodes:
                if answer.bucket is Disposition.TIMED_OUT:
                    self._cluster.silent[connection.address] = str(failure)
                return self.refused(connection, str(failure))  # a broker that ends is no reason to stop
            self.failure = HandshakeFailed(f"{format_address(*connection.address)}: {failure}")
            return self.drop(connection)
        self.counters.add_synthetic(api_name(part.key))
        connection.put(part, lambda found: self._shake(connection, found), self.now_ns)
        return None

    def _log_in_later(self, connection: Connection, lifetime_ms: int) -> None:
        """Log in again before the SASL session ends (KIP-368)."""

        def log_in() -> None:
            credentials = self._settings.credentials
            if not connection.closed and credentials:
                connection.ready = False
                self._handshakes[connection] = authenticate(credentials, self._nonce)
                self._shake(connection, None)

        self.at(self.now_ns + max(int(lifetime_ms * AGAIN_AFTER * 1e6), SHORTEST_SESSION_NS), log_in)


def _ignore(_result: object, _failure: Exception | None) -> None:
    """Do nothing: nobody waits for the result."""
