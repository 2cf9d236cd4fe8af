"""Sockets: what one event gives to send leaves together, and what an event raises ends the run."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from kdissect.replay.effects import ANY, Answer, Part
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.net.transport import NoTimedWork, TcpTransport, _Channel, drive
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.cluster import TargetCluster
from tests.helpers.null_target import null_target

NOWHERE = ("127.0.0.1", 1)


class Peer:
    """What a channel writes to."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.heard.append(data)

    def close(self) -> None:
        self.heard.append(b"closed")


def test_what_one_event_gives_to_send_leaves_together_and_before_the_end() -> None:
    wire = TcpTransport(None)
    peers = []
    links = [Connection(number, 1, NOWHERE, wire, 0) for number in range(2)]
    for link in links:
        channel = _Channel(wire, link)
        channel.transport = peer = Peer()  # type: ignore[assignment]
        wire._channels[link] = channel
        peers.append(peer)
    for data in (b"a", b"b", b"c"):
        wire.send(links[0], data)
    wire.send(links[1], b"last")
    wire.disconnect(links[1])
    assert peers[0].heard == []
    wire.flush()
    wire.flush()
    assert [peer.heard for peer in peers] == [[b"abc"], [b"last", b"closed"]]


def ask(address: tuple[str, int], done: Callable[[Answer], None]) -> ConnectionPool:
    """Ask a target for its groups over a socket, until something is answered or the pool has failed."""
    settings = ReplaySettings(target=(address,))
    cluster = TargetCluster(lambda _address: None, lambda _address: None)
    transport, answers = TcpTransport(None), list[Answer]()
    pool = ConnectionPool(settings, cluster, transport, lambda: "nonce")

    def take(answer: Answer) -> None:
        answers.append(answer)
        done(answer)

    drive(
        pool,
        transport,
        NoTimedWork(),
        lambda: pool.ask("control", Part(16, 0, {}, ANY), take),
        lambda: bool(answers),
    )
    return pool


def test_a_request_is_answered_over_a_socket() -> None:
    with null_target() as target:
        answers: list[Answer] = []
        pool = ask(("127.0.0.1", int(target.rpartition(":")[2])), answers.append)
    assert answers[0].body == {"error_code": 0, "groups": []}
    assert (pool.counters.opened, pool.connections) == (1, {})


def test_what_an_answer_makes_raise_ends_the_run() -> None:
    def fail(_answer: Answer) -> None:
        raise KeyError("a defect")

    with null_target() as target, pytest.raises(KeyError, match="a defect"):
        ask(("127.0.0.1", int(target.rpartition(":")[2])), fail)


def test_a_port_where_nobody_listens_is_said_so() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        pool = ask(bound.getsockname(), lambda _answer: None)
    assert "cannot be reached: " in str(pool.failure)
