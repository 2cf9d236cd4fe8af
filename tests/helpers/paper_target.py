"""Captures made by hand, and a target that exists on paper: both for replays on a clock that tests move."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Any

from kdissect.protocol.codec.messages import (
    decode_request,
    encode_request,
    encode_response,
)
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.addresses import IpAddress
from kdissect.replay.engine.fast_path.prepared_requests import prepare_requests
from kdissect.replay.engine.player import Player, PlayerSetup
from kdissect.replay.engine.run_limits import RunLimits
from kdissect.replay.engine.schedule import Schedule
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.request_table import Request
from kdissect.replay.load.requests import Capture
from kdissect.replay.load.spool import Spool
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.safety import Admission
from kdissect.replay.settings import Address, ReplaySettings
from kdissect.replay.target.cluster import TargetCluster

MS = 1_000_000
START = 1_700_000_000_000_000_000
TARGET: Address = ("127.0.0.1", 9092)
Tree = dict[str, Any]
HERE = IPv4Address("127.0.0.1")


class Anywhere(Admission):
    """Every address may be connected to."""

    def __init__(self) -> None:
        super().__init__(settings(), CapturedCluster())

    def admit(self, address: Address) -> None: ...

    def admit_resolved(self, address: Address, found: Iterable[IpAddress]) -> None: ...

    def admit_peer(self, address: Address, peer: IpAddress) -> None: ...


@dataclass
class Script:
    """A capture in the making; times are ms from its start."""

    shelf: Spool = field(default_factory=Spool)
    requests: list[Request] = field(default_factory=list)
    names: dict[bytes, str] = field(default_factory=dict)
    _ordinals: dict[int, int] = field(default_factory=dict)

    def add(
        self,
        at_ms: float,
        key: int,
        version: int,
        body: Tree,
        answer: Tree | None = None,
        *,
        connection: int = 1,
        took_ms: float = 1.0,
        client_id: str = "client",
        in_flight: int = 1,
        server: str = "10.0.0.1:9092",
        raw: bytes | None = None,
    ) -> int:
        """Add a request with its answer; give its index."""
        header = {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": 7,
            "client_id": client_id,
        }
        frame = encode_request(header, body) if raw is None else raw
        said = None if answer is None else encode_response(key, version, {"correlation_id": 7}, answer)
        ordinal = self._ordinals.get(connection, 0)
        self._ordinals[connection] = ordinal + 1
        first = START + int(at_ms * MS)
        self.requests.append(
            Request(
                index=len(self.requests),
                connection=connection,
                ordinal=ordinal,
                server=server,
                key=key,
                version=version,
                status="answered" if said else "unanswered",
                first_ns=first,
                last_ns=first,
                answered_ns=first + int(took_ms * MS) if said else None,
                in_flight=in_flight,
                complete=True,
                frame=self.shelf.put(frame),
                response=self.shelf.put(said) if said else None,
                response_complete=said is not None,
            )
        )
        return len(self.requests) - 1

    def exclude(self, excluded: Callable[[Request], bool], option: str) -> None:
        """Mark requests as excluded by an option, as the filters do when a capture is read."""
        self.requests[:] = [
            replace(each, excluded_by=option) if excluded(each) else each for each in self.requests
        ]

    def capture(self) -> Capture:
        return Capture(("handmade",), self.names, [], START, START, self.requests, servers={"10.0.0.1:9092"})


Responder = Callable[[int, int, Tree], Tree | None]  # (key, version, body) -> answer, None: silence


@dataclass(eq=False)
class PaperTarget:
    """A wire whose far end is a function; everything takes `delay_ns` and happens on the test's clock."""

    respond: Responder
    delay_ns: int = MS
    refuse: bool = False
    asked: list[tuple[int, int, int, Tree]] = field(default_factory=list)  # (time, key, version, body)
    now_ns: int = 0
    board: ConnectionPool | None = None
    events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def later(self, delay_ns: int, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self.events, (self.now_ns + delay_ns, self._count, what))

    def connect(self, link: Connection, address: Address) -> None:
        assert self.board is not None
        board = self.board
        if self.refuse:
            self.later(self.delay_ns, lambda: board.refused(link, "connection refused"))
        else:
            self.later(self.delay_ns, lambda: board.connected(link, HERE))

    def send(self, link: Connection, data: bytes) -> None:
        self.take(link, data[4:])

    def take(self, link: Connection, frame: bytes) -> None:
        whole = decode_request(frame)
        key, version = whole.header["request_api_key"], whole.header["request_api_version"]
        assert whole.fault is None, whole.fault
        assert whole.body is not None
        self.asked.append((self.now_ns, key, version, whole.body))
        if key == 18:
            answer: Tree | None = {
                "error_code": 0,
                "api_keys": [
                    {"api_key": each, "min_version": api.live.start, "max_version": api.live.stop - 1}
                    for each, api in APIS.items()
                ],
            }
        else:
            answer = self.answer(link, key, version, whole.body)
        if answer is not None:
            self.reply(link, whole.header, answer)

    def reply(self, link: Connection, asked: Tree, answer: Tree) -> None:
        """Send an answer to the request with this header."""
        key, version = asked["request_api_key"], asked["request_api_version"]
        said = encode_response(key, version, {"correlation_id": asked["correlation_id"]}, answer)
        framed = len(said).to_bytes(4, "big") + said
        self.later(self.back_ns(link), lambda: link.closed or link.received(framed, self.now_ns))

    def answer(self, link: Connection, key: int, version: int, body: Tree) -> Tree | None:
        """Answer a request."""
        del link
        return self.respond(key, version, body)

    def back_ns(self, link: Connection) -> int:
        """Return how long an answer takes."""
        del link
        return self.delay_ns

    def disconnect(self, link: Connection) -> None:
        """Nothing is left to close."""

    def run(self, player: Player | None, until_ns: int, done: Callable[[], bool]) -> None:
        """Advance time until nothing is left to do."""
        assert self.board is not None
        for _ in range(1_000_000):
            if done():
                return
            times = [self.board.next_ns]
            times += [self.events[0][0]] if self.events else []
            times += [player.next_ns] if player is not None and player.next_ns is not None else []
            self.now_ns = max(self.now_ns, min(times))
            assert self.now_ns <= until_ns, "it takes longer than it may"
            self.board.wake(self.now_ns)
            while self.events and self.events[0][0] <= self.now_ns:
                heapq.heappop(self.events)[2]()
            if player is not None:
                player.wake()
        raise AssertionError("time passes and nothing happens")


@dataclass(eq=False)
class FarTarget(PaperTarget):
    """One that takes requests when they arrive: `lag` says how long a way takes, each connection keeps its
    order."""

    lag: Callable[[Connection], int] = lambda _link: MS
    _busy: dict[tuple[str, Connection], int] = field(default_factory=dict)

    def connect(self, link: Connection, address: Address) -> None:
        self.later(self.lag(link), lambda: self.board and self.board.connected(link, HERE))

    def send(self, link: Connection, data: bytes) -> None:
        self.later(self._in_order("there", link), lambda: link.closed or self.take(link, data[4:]))

    def back_ns(self, link: Connection) -> int:
        return self._in_order("back", link)

    def _in_order(self, direction: str, link: Connection) -> int:
        at = max(self.now_ns + self.lag(link), self._busy.get((direction, link), 0))
        self._busy[direction, link] = at
        return at - self.now_ns


@dataclass
class OnPaper:
    """A replay of a script against a paper target."""

    loaded: ReplayInput
    target: PaperTarget
    player: Player
    context: ReplayContext

    def buckets(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for result in self.player.results:
            found[result.bucket.value] = found.get(result.bucket.value, 0) + 1
        return found

    def sent(self, key: int) -> list[tuple[int, int, Tree]]:
        """Return (time, version, body) of what was asked with an API key."""
        return [(time, version, body) for time, each, version, body in self.target.asked if each == key]


def settings(**more: Any) -> ReplaySettings:
    return ReplaySettings(**{"target": (TARGET,), "prefix": "t-", **more})


def topology(topics: dict[str, int] | None = None, leaders: int = 1) -> TargetCluster:
    """Return a target with these topics (name -> partitions), their leaders spread over so many nodes."""
    from kdissect.replay.target.cluster import TargetTopic

    made = TargetCluster(Anywhere(), "target")
    made.nodes = {node: ("127.0.0.1", 9091 + node) for node in range(1, leaders + 1)}
    for name, count in (topics or {}).items():
        identity = name.encode().ljust(16, b"\1")[:16]
        made.topics[name] = TargetTopic(
            identity, {number: 1 + number % leaders for number in range(count)}, 1, False
        )
    made.versions = {key: (api.live.start, api.live.stop - 1) for key, api in APIS.items()}
    made.features["transaction.version"] = 2
    return made


def replay(
    script: Script,
    respond: Responder,
    asked: ReplaySettings | None = None,
    *,
    target: TargetCluster | None = None,
    delay_ns: int = MS,
    refuse: bool = False,
    limit_s: float = 600.0,
    interrupt_ns: int | None = None,
) -> OnPaper:
    """Replay a script on a clock of its own."""
    paper = PaperTarget(respond, delay_ns, refuse)
    how = {"limit_s": limit_s, "interrupt_ns": interrupt_ns}
    return play(script.capture(), script.shelf, paper, target or topology(), asked or settings(), **how)


def play(
    capture: Capture,
    shelf: Spool,
    paper: PaperTarget,
    known: TargetCluster,
    asked: ReplaySettings,
    *,
    limit_s: float = 600.0,
    interrupt_ns: int | None = None,
    prepared: bool = False,
) -> OnPaper:
    """Replay a capture on a clock of its own; `prepared` as a run does, all that can be made ready before."""
    loaded = load(capture, shelf, asked)
    for name, topic in known.topics.items():
        loaded.names.learn(name, topic.identity)
    board = ConnectionPool(asked, known, paper, lambda: "nonce")
    paper.board = board
    context = new_context(asked, loaded, known, lambda: paper.now_ns, shelf.get)
    finished: list[bool] = []
    first = next((item.request.first_ns for item in loaded.items if item.refusal is None), START)
    table = Schedule(asked.pace, asked.speed, first, 0)
    ready = prepare_requests(context, loaded.items if prepared else ())
    player = Player(
        PlayerSetup(
            replay_input=loaded,
            items=loaded.items,
            context=context,
            pool=board,
            schedule=table,
            limits=RunLimits(asked.caps, asked.breaker),
            prepared=ready,
            spool=shelf,
            finished=lambda: finished.append(True),
        )
    )
    board.wake(0)
    player.start()
    if interrupt_ns is not None:
        paper.later(interrupt_ns, lambda: player.stop("interrupted"))
    paper.run(player, int(limit_s * 1e9), lambda: bool(finished))
    return OnPaper(loaded, paper, player, context)


FOUND_NOTHING: Tree = {"brokers": [], "topics": []}
