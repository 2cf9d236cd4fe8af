"""Sockets: what one event gives to send leaves together, and what an event raises ends the run."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from kdissect.errors import ExitCode
from kdissect.replay.effects import ANY, Answer, Part
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.net.resolver import is_own
from kdissect.replay.net.transport import STOPPING, NoTimedWork, TcpTransport, _Channel, drive
from kdissect.replay.safety import Admission
from kdissect.replay.settings import ReplaySettings, Tls
from kdissect.replay.target.cluster import TargetCluster
from tests.helpers.null_target import null_target
from tests.helpers.own_certificate import own_certificate
from tests.helpers.paper_target import Anywhere

NOWHERE = ("127.0.0.1", 1)


class Peer:
    """Destination of a channel's bytes."""

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


@pytest.fixture
def heard_signals() -> Iterator[list[int]]:
    """The signals that reach handlers of the caller, which are put away afterwards."""
    heard: list[int] = []
    before = {each: signal.signal(each, lambda number, _: heard.append(number)) for each in STOPPING}
    yield heard
    for each, handler in before.items():
        signal.signal(each, handler)


def ask(
    address: tuple[str, int], done: Callable[[Answer], None], admission: Admission | None = None, **how: Any
) -> ConnectionPool:
    """Ask a target for its groups over a socket, until something is answered or the pool has failed."""
    settings = ReplaySettings(target=(address,), **how)
    cluster = TargetCluster(admission or Anywhere())
    transport, answers = TcpTransport(settings.tls), list[Answer]()
    pool = ConnectionPool(settings, cluster, transport, lambda: "nonce")

    def take(answer: Answer) -> None:
        answers.append(answer)
        done(answer)

    drive(
        pool,
        transport,
        NoTimedWork(),
        lambda: pool.ask("control", Part(16, 0, {}, ANY), take),
        lambda: bool(answers) or pool.failure is not None,
    )
    return pool


def test_signals_are_handled_as_before_when_the_target_has_answered(heard_signals: list[int]) -> None:
    with null_target() as target:
        ask(("127.0.0.1", int(target.rpartition(":")[2])), lambda _: None)
    for each in STOPPING:
        signal.raise_signal(each)
    assert heard_signals == list(STOPPING)


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
@pytest.mark.usefixtures("heard_signals")
def test_a_signal_ends_a_question_that_is_not_answered(
    number: signal.Signals, end: type[BaseException]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
        timer.start()
        with pytest.raises(end) as ended:
            ask(silent.getsockname(), lambda _: None)
        timer.join()
    assert getattr(ended.value, "code", ExitCode.TERMINATED) == ExitCode.TERMINATED


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


class Heard:
    """A server that only listens, and keeps what it is sent."""

    def __init__(self) -> None:
        self.connections, self.data = 0, b""
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                self.connections += 1
                connection.settimeout(5)
                with connection, suppress(OSError):
                    while data := connection.recv(1000):
                        self.data += data

    def close(self) -> None:
        """End it."""
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.thread.join(10)


@pytest.fixture
def heard() -> Iterator[Heard]:
    server = Heard()
    yield server
    server.close()


def rules(captured: tuple[str, int], target: str, port: int, **how: Any) -> Admission:
    settings = ReplaySettings(target=((target, port),), **how)
    return Admission(settings, CapturedCluster(set(), {captured}), {}, is_own)


@pytest.mark.parametrize("spelled", ["localhost", "127.0.0.2", "::ffff:127.0.0.1", "127.1", "0x7f000001"])
def test_no_spelling_leads_to_a_captured_broker(heard: Heard, spelled: str) -> None:
    """The attacker has the operator, or the target's metadata, spell the captured broker otherwise."""
    admission = rules(("127.0.0.1", heard.port), spelled, heard.port)
    failure = ask((spelled, heard.port), lambda _: None, admission).failure
    assert "captured cluster" in str(failure)
    assert (heard.connections, heard.data) == (0, b"")


def test_a_name_that_leads_to_a_captured_broker_is_not_connected_to(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attacker's name has two addresses, of which the second is the captured broker."""
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("192.0.2.1", "127.0.0.1")]

    async def resolved(*_: object, **__: object) -> Any:
        return answers

    monkeypatch.setattr("asyncio.BaseEventLoop.getaddrinfo", resolved)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    admission = rules(("127.0.0.1", heard.port), "innocent.test", heard.port)
    failure = ask(("innocent.test", heard.port), lambda _: None, admission).failure
    assert f"innocent.test:{heard.port} (127.0.0.1) is a broker of the captured cluster" in str(failure)
    assert (heard.connections, heard.data) == (0, b"")


def test_a_peer_that_is_not_the_resolved_address_is_told_nothing(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attacker changes the way between the check of an address and the connection to it."""
    resolved = "kdissect.replay.net.transport._resolved"

    async def changed(_address: object) -> dict[str, object]:
        return {"127.0.0.1": ip_address("10.1.1.1")}

    monkeypatch.setattr(resolved, changed)
    admission = rules(("10.0.0.1", 9092), "good.test", heard.port)
    failure = ask(("good.test", heard.port), lambda _: None, admission).failure
    assert f"the connection to good.test:{heard.port} led to 127.0.0.1, which is not allowed" in str(failure)
    assert heard.data == b""


@pytest.mark.parametrize(
    ("names", "days", "trusted", "said"),
    [
        (("127.0.0.1",), 2, False, r"self-signed certificate \(--tls-ca takes trusted ones\)"),
        (("127.0.0.1",), -2, True, "certificate has expired"),
        (("10.9.8.7",), 2, True, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
)
def test_a_refused_certificate_is_said_why(
    tmp_path: Path, names: tuple[str, ...], days: int, trusted: bool, said: str
) -> None:
    own = own_certificate(tmp_path / "own", days, [ip_address(each) for each in names])
    speaks = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    speaks.load_cert_chain(own)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                speaks.wrap_socket(listener.accept()[0], server_side=True)

        threading.Thread(target=serve, daemon=True).start()
        where = listener.getsockname()
        tls = Tls(authority=str(own) if trusted else None)
        failure = ask(where, lambda _: None, tls=tls).failure
    assert re.fullmatch(
        f"127.0.0.1:{where[1]} cannot be reached: TLS: its certificate is refused: {said}", str(failure)
    )
