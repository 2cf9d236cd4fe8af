"""A proxy in front of a broker that hands on each answer some time after it came, in order."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
CHUNK = 1 << 16


class DelayingProxy:
    """A context manager: listens on `port` of loopback, goes on to `target`. `delay_s` may change."""

    def __init__(self, port: int, target: int) -> None:
        self.delay_s = 0.0
        self._target = target
        self._server = socket.create_server((LOOPBACK, port), backlog=512)
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    broker = socket.create_connection((LOOPBACK, self._target))
                except OSError:  # the broker is down
                    client.close()
                    continue
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += (client, broker)
                answers: queue.Queue[tuple[float, bytes]] = queue.Queue()
                for work in (
                    (_pass, client, broker),
                    (self._read_answers, broker, answers),
                    (_send_answers, answers, client),
                ):
                    threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    def _read_answers(self, broker: socket.socket, answers: queue.Queue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(CHUNK):
                answers.put((time.monotonic() + self.delay_s, data))
        answers.put((0.0, b""))


def _send_answers(answers: queue.Queue[tuple[float, bytes]], client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            due_s, data = answers.get()
            if not data:
                break
            time.sleep(max(due_s - time.monotonic(), 0.0))
            client.sendall(data)
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
