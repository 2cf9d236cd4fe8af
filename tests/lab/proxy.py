"""Shared steps of proxies in front of a broker: accept clients, connect to the broker, close all at the end.

A subclass starts the threads that pass bytes on, in both directions.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

LOOPBACK = "127.0.0.1"
CHUNK = 1 << 16


class Proxy:
    """A context manager: listens on `port` of loopback, goes on to `target`.

    A client that comes while the broker is down is turned away.
    """

    def __init__(self, port: int, target: int) -> None:
        self._target = target
        self._server = socket.create_server((LOOPBACK, port), backlog=512)
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in (self._server, *self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    broker = socket.create_connection((LOOPBACK, self._target))
                except OSError:
                    client.close()
                    continue
                for connection in (client, broker):
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += (client, broker)
                self._pass_on(client, broker)

    def _pass_on(self, client: socket.socket, broker: socket.socket) -> None:
        """Start what passes bytes on between the two."""
        raise NotImplementedError


def start(work: Callable[..., None], *arguments: Any) -> None:
    """Run a function in a thread that ends with the process."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


def pass_bytes(source: socket.socket, sink: socket.socket, how: int = socket.SHUT_WR) -> None:
    """Pass bytes on as they are until the source ends, then shut the sink down."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(how)
