"""Sockets of connections, and the clock (see also `resolver`).

`drive` runs a `ConnectionPool`, and the `TimedWork` that uses it, in an asyncio loop (uvloop's where that is
installed) until the work is done. Connections are TCP with Nagle's delay off, over TLS if the operator asks
for it. The frames that one event gives to send leave when the event has been dealt with, by one call for each
connection: most of what a small request costs the system is that call. A host is resolved here, and the pool
checks all its addresses before one is connected to. This module does not know what a frame means.
"""

import asyncio
import contextlib
import secrets
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol

from kdissect.errors import ExitCode
from kdissect.replay.addresses import IpAddress, ip_of
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.net.tls_context import reason_of, tls_context
from kdissect.replay.settings import Address, Tls

CONNECT_S = 8.0
STOPPING = (signal.SIGINT, signal.SIGTERM)  # what asks a run to end
TICK_NS = 1_000_000  # timers of event loops count in ms


class TimedWork(Protocol):
    """Work that is driven beside the pool."""

    @property
    def next_ns(self) -> int | None:
        """Return the time to wake it; None: never."""

    def wake(self) -> None:
        """Do what is due."""

    def interrupt(self, number: int, /) -> None:
        """Deal with Ctrl-C, or with SIGTERM."""


class NoTimedWork:
    """No work of its own: the coroutines of the pool are all there is."""

    next_ns: int | None = None

    def wake(self) -> None:
        """Do nothing, since nothing is ever due."""

    def interrupt(self, number: int, /) -> None:
        """End at once, as commands do that send nothing."""
        if number == signal.SIGTERM:
            raise SystemExit(ExitCode.TERMINATED)
        raise KeyboardInterrupt


class TcpTransport:
    """Connections over TCP. `pool` is set by `drive`, before anything connects."""

    def __init__(self, tls: Tls | None) -> None:
        self.pool: ConnectionPool | None = None
        self.on_event: Callable[[int], None] = (
            _ignore  # called with the time when an event has been dealt with
        )
        self.on_error: Callable[[Exception], None] = _raise  # called with what an event must not raise
        self._context = tls_context(tls) if tls else None
        self._channels: dict[Connection, _Channel] = {}
        self._outgoing: list[_Channel] = []  # those with something to send
        self._opening: dict[Connection, asyncio.Task[None]] = {}

    def connect(self, connection: Connection, address: Address) -> None:
        """Begin to connect."""
        task = asyncio.get_running_loop().create_task(self._open(connection, address))
        self._opening[connection] = task

    def send(self, connection: Connection, data: bytes) -> None:
        """Have bytes written with all that the present event gives to send."""
        channel = self._channels.get(connection)
        if channel is not None:
            if not channel.outgoing:
                self._outgoing.append(channel)
            channel.outgoing.append(data)

    def flush(self) -> None:
        """Write what there is to send."""
        channels = self._outgoing
        for channel in channels:
            channel.write()
        channels.clear()

    def disconnect(self, connection: Connection) -> None:
        """Close a connection, whatever state it is in."""
        channel = self._channels.pop(connection, None)
        if channel is not None and channel.transport is not None:
            channel.write()
            channel.transport.close()
        opening = self._opening.pop(connection, None)
        if opening is not None and not opening.done():
            opening.cancel()

    async def _open(self, connection: Connection, address: Address) -> None:
        pool = self.pool
        assert pool is not None
        within_s = min(CONNECT_S, pool.deadline_s)
        try:
            async with asyncio.timeout(within_s):
                found = await _resolved(address)
                if not pool.resolved(connection, found.values()):
                    return
                channel = await self._connected(connection, address, tuple(found))
        except (OSError, TimeoutError) as error:
            self._opening.pop(connection, None)
            is_late = isinstance(error, TimeoutError)
            reason = f"no connection within {within_s:g} s" if is_late else reason_of(error)
            self._deal_with(lambda pool: pool.refused(connection, reason))
            return
        self._opening.pop(connection, None)
        self._channels[connection] = channel
        peer = ip_of(channel.transport.get_extra_info("peername")[0]) if channel.transport else None
        if peer is None:
            self._deal_with(lambda pool: pool.refused(connection, "its other end has no address"))
        else:
            self._deal_with(lambda pool: pool.connected(connection, peer))

    async def _connected(self, connection: Connection, address: Address, hosts: Sequence[str]) -> "_Channel":
        """Connect to the first of some hosts that accepts; all are addresses of the one in `address`."""
        loop = asyncio.get_running_loop()
        for number, host in enumerate(hosts, 1):
            with contextlib.suppress(OSError) if number < len(hosts) else contextlib.nullcontext():
                _, channel = await loop.create_connection(
                    lambda: _Channel(self, connection),
                    host,
                    address[1],
                    ssl=self._context,
                    server_hostname=address[0] if self._context else None,
                )
                return channel
        raise OSError(f"{address[0]} has no address")

    def received(self, connection: Connection, data: bytes) -> None:
        """Hand bytes to a connection."""
        pool = self.pool
        assert pool is not None
        pool.now_ns = now = now_ns()
        try:
            connection.received(data, now)
            self.flush()
        except Exception as error:  # noqa: BLE001 - asyncio would only log it
            self.on_error(error)
        self.on_event(pool.now_ns)

    def lost(self, connection: Connection) -> None:
        """Report that the peer closed a connection."""
        if self._channels.pop(connection, None) is not None:
            self._deal_with(lambda pool: pool.lost(connection))

    def _deal_with(self, event: Callable[[ConnectionPool], None]) -> None:
        pool = self.pool
        assert pool is not None
        try:
            pool.wake(now_ns())
            event(pool)
            self.flush()
        except Exception as error:  # noqa: BLE001 - asyncio would only log it
            self.on_error(error)
        self.on_event(pool.now_ns)


class _Channel(asyncio.Protocol):
    """A connection as asyncio sees it."""

    def __init__(self, owner: TcpTransport, connection: Connection) -> None:
        self._owner, self._connection = owner, connection
        self.transport: asyncio.Transport | None = None
        self.outgoing: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment] # uvloop's transports are not subclasses
        peer_socket = transport.get_extra_info("socket")
        if peer_socket is not None:
            with contextlib.suppress(OSError):
                peer_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self) -> None:
        """Write what waits, if it still can be."""
        outgoing, transport = self.outgoing, self.transport
        if outgoing and transport is not None:
            transport.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))
        outgoing.clear()

    def data_received(self, data: bytes) -> None:
        self._owner.received(self._connection, data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._owner.lost(self._connection)


async def _resolved(address: Address) -> dict[str, IpAddress]:
    """Return the addresses of a host, as the system spells them and as they are compared."""
    host, port = address
    spelled = ip_of(host)
    if spelled is not None:
        return {host: spelled}
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host} is no name of a host") from error
    resolved = {str(answer[4][0]): ip_of(str(answer[4][0])) for answer in found}
    return {text: each for text, each in resolved.items() if each is not None}


def _ignore(_time_ns: int) -> None:
    """Do nothing: nothing is driven any more."""


def _raise(error: Exception) -> None:
    raise error


def now_ns() -> int:
    """Return the time of a run's clock, which never steps back."""
    return time.monotonic_ns()


def wall_ns() -> int:
    """Return the time of day as ns since the epoch, for what is written down."""
    return time.time_ns()


def nonce() -> str:
    """Return random text for SCRAM."""
    return secrets.token_urlsafe(24)


def drive(
    pool: ConnectionPool,
    transport: TcpTransport,
    work: TimedWork,
    start: Callable[[], None],
    done: Callable[[], bool],
) -> None:
    """Call `start`, and drive pool and work until `done`. Raise what makes it impossible to go on."""
    transport.pool = pool
    with _handlers_kept():
        _run(_drive(pool, transport, work, start, done))


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put back how signals were handled: an event loop leaves what the system does, such as to kill."""
    before = {each: signal.getsignal(each) for each in STOPPING}
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # outside the main thread nothing was changed
            for each, handler in before.items():
                if handler is not None:  # then it is none of Python's
                    signal.signal(each, handler)


def _run(main: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


async def _drive(
    pool: ConnectionPool,
    transport: TcpTransport,
    work: TimedWork,
    start: Callable[[], None],
    done: Callable[[], bool],
) -> None:
    loop = asyncio.get_running_loop()
    pump = _Pump(pool, transport, work, done)
    transport.on_event, transport.on_error = pump.happened, pump.fail
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        for each in STOPPING:
            loop.add_signal_handler(each, work.interrupt, each)
    pool.wake(now_ns())
    start()
    try:
        pump.wake()
        await pump.finished
    finally:
        transport.on_event, transport.on_error = _ignore, _raise
        pool.leave_all()
        pump.stop()
        await asyncio.sleep(0)
        for each in STOPPING:
            loop.remove_signal_handler(each)


class _Pump:
    """Wakes pool and work when something is due, by one timer: what is due within a tick leaves together."""

    def __init__(
        self, pool: ConnectionPool, transport: TcpTransport, work: TimedWork, done: Callable[[], bool]
    ) -> None:
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pool, self._transport, self._work, self._done = pool, transport, work, done
        self._timer: asyncio.Handle | None = None
        self._armed_ns = 0  # when the timer wakes

    def wake(self) -> None:
        """Do what is due, and arm the timer again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._pool.wake(now_ns())
            self._work.wake()
            self._transport.flush()
        except Exception as error:  # noqa: BLE001 - it is raised again where the run is awaited
            self.fail(error)
        self._look()

    def happened(self, time_ns: int) -> None:
        """Look at what an event means: it may be the end, or something may be due earlier than was known."""
        if self._timer is None or self._armed_ns > time_ns + TICK_NS:
            self._look()

    def _look(self) -> None:
        if self.finished.done():
            return
        if self._done():
            self.finished.set_result(None)
            return
        next_ns = self._pool.next_ns
        work_ns = self._work.next_ns
        if work_ns is not None and work_ns < next_ns:
            next_ns = work_ns
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

    def fail(self, error: Exception) -> None:
        """End the run with an error."""
        if not self.finished.done():
            self.finished.set_exception(error)

    def stop(self) -> None:
        """Wake nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
