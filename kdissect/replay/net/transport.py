"""Sockets and the clock: the one module of replay that has them.

`play` drives a switchboard in an asyncio loop (uvloop's where that is installed) until the work says that it is done. Links are
TCP connections with Nagle's delay off, over TLS if asked. What one event gives to send goes out when the event has been dealt with, by
one call for each connection: the system's part of a small request is mostly that call. Nothing in here knows what a frame means.
"""

import asyncio
import contextlib
import secrets
import signal
import socket
import ssl
import time
from collections.abc import Callable
from typing import Protocol

from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import Address, Tls

CONNECT_S = 10.0
TICK_NS = 1_000_000  # timers of event loops count in ms


class TimedWork(Protocol):
    """What is driven besides the switchboard."""

    @property
    def next_ns(self) -> int | None:
        """When to wake it."""

    def wake(self) -> None:
        """Do what is due."""

    def interrupt(self) -> None:
        """The operator pressed Ctrl-C."""


class NoTimedWork:
    """No work of its own: the switchboard's courses are all there is."""

    next_ns: int | None = None

    def wake(self) -> None:
        """Nothing is ever due."""

    def interrupt(self) -> None:
        """End at once."""
        raise KeyboardInterrupt


class TcpTransport:
    """Links over TCP. `board` is set before anything connects."""

    def __init__(self, tls: Tls | None) -> None:
        self.board: ConnectionPool | None = None
        # Something happened, at this time: look again at what is due.
        self.kick: Callable[[int], None] = _nothing
        self._context = _context(tls) if tls else None
        self._channels: dict[Connection, _Channel] = {}
        self._corked: list[_Channel] = []  # those with something to send
        self._opening: dict[Connection, asyncio.Task[None]] = {}

    def connect(self, link: Connection, address: Address) -> None:
        """Begin to connect."""
        self._opening[link] = asyncio.get_running_loop().create_task(self._open(link, address))

    def send(self, link: Connection, data: bytes) -> None:
        """Have bytes written with whatever else the event that is dealt with gives to send."""
        channel = self._channels.get(link)
        if channel is not None:
            if not channel.outgoing:
                self._corked.append(channel)
            channel.outgoing.append(data)

    def uncork(self) -> None:
        """Write what there is to send."""
        corked = self._corked
        for channel in corked:
            channel.write()
        corked.clear()

    def disconnect(self, link: Connection) -> None:
        """Close, whatever state it is in."""
        channel = self._channels.pop(link, None)
        if channel is not None and channel.transport is not None:
            channel.write()
            channel.transport.close()
        opening = self._opening.pop(link, None)
        if opening is not None and not opening.done():
            opening.cancel()

    async def _open(self, link: Connection, address: Address) -> None:
        assert self.board is not None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                _, channel = await loop.create_connection(
                    lambda: _Channel(self, link),
                    *address,
                    ssl=self._context,
                    server_hostname=address[0] if self._context else None,
                )
        except (OSError, TimeoutError) as error:
            self._opening.pop(link, None)
            self.board.wake(now_ns())
            self.board.refused(link, _sentence(error))
            self._dealt_with()
            return
        self._opening.pop(link, None)
        self._channels[link] = channel
        self.board.wake(now_ns())
        peer = channel.transport.get_extra_info("peername") if channel.transport else None
        self.board.connected(link, (peer[0], peer[1]) if peer else address)
        self._dealt_with()

    def received(self, link: Connection, data: bytes) -> None:
        """Hand bytes on."""
        assert self.board is not None
        self.board.now_ns = now = now_ns()
        link.received(data, now)
        self._dealt_with()

    def lost(self, link: Connection) -> None:
        """Hand on that the peer closed."""
        if self._channels.pop(link, None) is not None and self.board is not None:
            self.board.wake(now_ns())
            self.board.lost(link)
            self._dealt_with()

    def _dealt_with(self) -> None:
        """End an event of a link."""
        assert self.board is not None
        self.uncork()
        self.kick(self.board.now_ns)


class _Channel(asyncio.Protocol):
    def __init__(self, wire: TcpTransport, link: Connection) -> None:
        self._wire, self._link = wire, link
        self.transport: asyncio.Transport | None = None
        self.outgoing: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        held = transport.get_extra_info("socket")
        if held is not None:
            with contextlib.suppress(OSError):
                held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self) -> None:
        """Write what waits, if it still can be."""
        outgoing, transport = self.outgoing, self.transport
        if outgoing and transport is not None:
            transport.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))
        outgoing.clear()

    def data_received(self, data: bytes) -> None:
        self._wire.received(self._link, data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._wire.lost(self._link)


def _nothing(_at_ns: int) -> None:
    """Nobody is driven any more."""


def now_ns() -> int:
    """Read the clock of a run: monotonic."""
    return time.monotonic_ns()


def wall_ns() -> int:
    """Read the time of day, for what is written down."""
    return time.time_ns()


def nonce() -> str:
    """Make random text for SCRAM."""
    return secrets.token_urlsafe(24)


def play(
    board: ConnectionPool,
    wire: TcpTransport,
    work: TimedWork,
    start: Callable[[], None],
    done: Callable[[], bool],
) -> None:
    """Drive everything until `done`. Raises what makes it impossible to go on."""
    wire.board = board
    _run(_drive(board, wire, work, start, done))


def _run(main: object) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)  # type: ignore[arg-type]
    else:
        uvloop.run(main)  # type: ignore[arg-type]


async def _drive(
    board: ConnectionPool,
    wire: TcpTransport,
    work: TimedWork,
    start: Callable[[], None],
    done: Callable[[], bool],
) -> None:
    loop = asyncio.get_running_loop()
    pump = _Pump(board, wire, work, done)
    wire.kick = pump.happened
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGINT, work.interrupt)
    board.wake(now_ns())
    start()
    try:
        pump.wake()
        await pump.finished
    finally:
        wire.kick = _nothing
        for link in list(board.links.values()):
            board.drop(link)
        pump.stop()
        await asyncio.sleep(0)
        loop.remove_signal_handler(signal.SIGINT)


class _Pump:
    """Wakes what is driven whenever something is due, by one timer: all that is due within a tick goes out together."""

    def __init__(
        self, board: ConnectionPool, wire: TcpTransport, work: TimedWork, done: Callable[[], bool]
    ) -> None:
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._board, self._wire, self._work, self._done = board, wire, work, done
        self._timer: asyncio.Handle | None = None
        self._armed_ns = 0

    def wake(self) -> None:
        """Do what is due, and see to it that this is called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._board.wake(now_ns())
            self._work.wake()
            self._wire.uncork()
        except Exception as error:  # noqa: BLE001 - it is raised again where the run is awaited
            self._fail(error)
        self._look()

    def happened(self, at_ns: int) -> None:
        """Look soon at what it means: it may be the end, or something may be due earlier than was known."""
        if self._timer is None or self._armed_ns > at_ns + TICK_NS:
            self._look()

    def _look(self) -> None:
        if self.finished.done():
            return
        if self._done():
            self.finished.set_result(None)
            return
        next_ns = self._board.next_ns
        due_ns = self._work.next_ns
        if due_ns is not None and due_ns < next_ns:
            next_ns = due_ns
        if self._timer is None or next_ns < self._armed_ns:
            self._arm(next_ns)

    def _arm(self, next_ns: int) -> None:
        loop, wait_ns = asyncio.get_running_loop(), next_ns - now_ns()
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ns = next_ns
        if wait_ns <= 0:
            self._timer = loop.call_soon(self.wake)
        else:
            self._timer = loop.call_later(max(wait_ns, TICK_NS) / 1e9, self.wake)

    def _fail(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)

    def stop(self) -> None:
        """Wake nothing any more."""
        if self._timer is not None:
            self._timer.cancel()


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.authority)
    if tls.certificate:
        context.load_cert_chain(tls.certificate)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _sentence(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_S:g} s"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    said = str(getattr(error, "strerror", None) or error).lower()
    return said or "the connection was closed before TLS was agreed on"
