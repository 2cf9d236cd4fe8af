"""A proxy in front of a broker that hands on each response some time after it came, in order."""

from __future__ import annotations

import contextlib
import queue
import socket
import time

from tests.lab.proxy import CHUNK, Proxy, pass_bytes, start


class DelayingProxy(Proxy):
    """A proxy that holds responses for `delay_s`, which may change."""

    def __init__(self, port: int, target: int) -> None:
        super().__init__(port, target)
        self.delay_s = 0.0

    def _pass_on(self, client: socket.socket, broker: socket.socket) -> None:
        responses: queue.Queue[tuple[float, bytes]] = queue.Queue()
        start(pass_bytes, client, broker, socket.SHUT_RDWR)
        start(self._read_responses, broker, responses)
        start(_send_responses, responses, client)

    def _read_responses(self, broker: socket.socket, responses: queue.Queue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(CHUNK):
                responses.put((time.monotonic() + self.delay_s, data))
        responses.put((0.0, b""))


def _send_responses(responses: queue.Queue[tuple[float, bytes]], client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            due_s, data = responses.get()
            if not data:
                break
            time.sleep(max(due_s - time.monotonic(), 0.0))
            client.sendall(data)
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
