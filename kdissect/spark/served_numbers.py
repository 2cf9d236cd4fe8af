"""The numbers that processes of a cluster note, in the memory of the driver, which serves them at a port.

Executors of a cluster share no directory with the driver, but they reach its host: `spark.driver.host`, or
the address from which the driver speaks to a Spark Connect server (`address_towards`). A task connects once,
shows the secret that it was sent with, and hears the driver's clock. Then it sends requests:

    secret (16 bytes)                        ─►  clock of the driver, ns (int64)
    operation, number of the log, a number   ─►  NUMBERS: how many, and so many int64; FIRST, APPEND: int64

A task that cannot connect, behind a firewall for instance, goes on without notes: then nobody can end its
reading early, and it waits for the driver no longer than `CONNECT_SECONDS`.
"""

import hmac
import secrets
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

SECRET_BYTES = 16
CONNECT_SECONDS = 3.0
NUMBER, REQUEST = struct.Struct("<q"), struct.Struct("<BHq")


class Operation(IntEnum):
    """Operation that a task asks for."""

    APPEND = 1
    NUMBERS = 2
    FIRST = 3


class Address(NamedTuple):
    """Address at which the driver serves numbers, and the secret that it wants to see."""

    host: str
    port: int
    secret: bytes


def address_towards(host: str, port: int) -> str:
    """Return the address of this machine on its way to a host; empty if there is no way.

    Connecting a UDP socket chooses a route, and sends nothing.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as route:  # noqa: TID251 - nothing is sent
            route.connect(place)
            return str(route.getsockname()[0])
    except OSError:
        return ""


class ServedNumbers:
    """Numbers of the driver. Tasks get `RemoteNumbers` in their place."""

    def __init__(self, server: "NumberServer", log: int) -> None:
        self._server, self._log = server, log
        self._noted: list[int] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a task gets them."""
        return RemoteNumbers, (self._server.address(), self._log)

    def append(self, number: int) -> None:
        """Note a number."""
        self._noted.append(number)

    def numbers(self) -> list[int]:
        """Return all numbers."""
        return self._noted.copy()

    def first(self, number: int) -> int:
        """Note a number, unless there is one. Return the first number."""
        with self._server.lock:
            if not self._noted:
                self._noted.append(number)
        return self._noted[0]

    def forget(self) -> None:
        """Forget all numbers."""
        self._noted.clear()

    def clock_ns(self) -> int:
        """Return the time of the monotonic clock of the driver."""
        return time.monotonic_ns()


class NumberServer:
    """Serves numbers from the first use of its address until `end`.

    `hosts` returns the host name of the driver for executors, and the address that it listens at.
    """

    def __init__(self, hosts: Callable[[], tuple[str, str]]) -> None:
        self.lock = threading.Lock()
        self.logs: list[ServedNumbers] = []
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self._hosts = hosts
        self._listener: _Listener | None = None

    def new_log(self) -> ServedNumbers:
        """Return another log of numbers."""
        self.logs.append(ServedNumbers(self, len(self.logs)))
        return self.logs[-1]

    def address(self) -> Address:
        """Return where tasks find the numbers, served from now on."""
        host, listening = (name.strip("[]") for name in self._hosts())
        if self._listener is None:
            self._listener = _Listener(self, listening)
            threading.Thread(target=self._listener.serve_forever, name="number-server", daemon=True).start()
        return Address(host, self._listener.server_address[1], self.secret)

    def end(self) -> None:
        """Serve nobody any more."""
        if self._listener is not None:
            self._listener.shutdown()
            self._listener.server_close()


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 1024  # all tasks of a cluster may connect at once

    def __init__(self, numbers: NumberServer, host: str) -> None:
        self.numbers = numbers
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), _Connection)

    def handle_error(self, *_connection: Any) -> None:
        """Drop a connection that failed: a task that ended, or a stranger."""


class _Connection(socketserver.StreamRequestHandler):
    server: _Listener
    timeout = CONNECT_SECONDS  # until the secret has come

    def handle(self) -> None:
        numbers = self.server.numbers
        if not hmac.compare_digest(self.rfile.read(SECRET_BYTES), numbers.secret):
            return
        self.connection.settimeout(None)
        self.wfile.write(NUMBER.pack(time.monotonic_ns()))
        while len(request := self.rfile.read(REQUEST.size)) == REQUEST.size:
            operation, log, number = REQUEST.unpack(request)
            noted = numbers.logs[log]
            if operation == Operation.APPEND:
                noted.append(number)
                self.wfile.write(NUMBER.pack(number))  # the task goes on when it is noted
            elif operation == Operation.FIRST:
                self.wfile.write(NUMBER.pack(noted.first(number)))
            else:
                all_of_them = noted.numbers()
                packed = b"".join(map(NUMBER.pack, all_of_them))
                self.wfile.write(NUMBER.pack(len(all_of_them)) + packed)


class RemoteNumbers:
    """Numbers of the driver, as a task sees them."""

    def __init__(self, address: Address, log: int) -> None:
        self._address, self._log = Address(*address), log

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process gets them."""
        return RemoteNumbers, (self._address, self._log)

    def append(self, number: int) -> None:
        """Note a number."""
        self._ask(Operation.APPEND, number)

    def numbers(self) -> list[int]:
        """Return all numbers; none if the driver cannot be reached."""
        return self._ask(Operation.NUMBERS)

    def first(self, number: int) -> int:
        """Note a number, unless there is one. Return the first number."""
        return next(iter(self._ask(Operation.FIRST, number)), number)

    def forget(self) -> None:
        """Raise TypeError: only the driver forgets."""
        raise TypeError("a task does not forget the numbers of the driver")

    def clock_ns(self) -> int:
        """Return the time of the monotonic clock of the driver."""
        return time.monotonic_ns() + _line_to(self._address).ahead_ns

    def _ask(self, operation: Operation, number: int = 0) -> list[int]:
        return _line_to(self._address).ask(REQUEST.pack(operation, self._log, number), operation)


class _Line:
    """The connection of this process to a driver. After an error it is dead, and answers nothing."""

    def __init__(self, address: Address) -> None:
        self._stream: Any = None
        self._lock = threading.Lock()
        self.ahead_ns = 0
        """How far the driver's clock is ahead."""
        try:
            connection = socket.create_connection(address[:2], CONNECT_SECONDS)  # noqa: TID251 - of one run
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = connection.makefile("rwb")
            self._stream.write(address.secret)
            self._stream.flush()
            self.ahead_ns = self._number() - time.monotonic_ns()
        except (OSError, struct.error):
            self._stream = None

    def ask(self, request: bytes, operation: Operation) -> list[int]:
        """Return the numbers of the answer."""
        with self._lock:
            if self._stream is None:
                return []
            try:
                self._stream.write(request)
                self._stream.flush()
                count = self._number() if operation == Operation.NUMBERS else 1
                return [self._number() for _ in range(count)]
            except (OSError, struct.error):
                self._stream = None
                return []

    def _number(self) -> int:
        return int(NUMBER.unpack(self._stream.read(NUMBER.size))[0])


_lines: dict[Address, _Line] = {}
_opening = threading.Lock()


def _line_to(address: Address) -> _Line:
    """Return the connection to a driver, made once in each process."""
    with _opening:
        if address not in _lines:
            _lines[address] = _Line(address)
        return _lines[address]
