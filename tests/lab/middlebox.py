"""A box on the way between clients and a broker that harms what passes, as a faulty proxy or a bad memory
cell does.

Requests are cut into frames, and `harm` says what becomes of each: the same bytes, others, or none at all.
Answers pass as they are. A capture of the broker's port shows what the box made of the requests.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
Harm = Callable[[bytes], bytes | None]


def client_of(frame: bytes) -> tuple[int, str]:
    """Return the API key and the client id of a request without its length."""
    (key,) = struct.unpack_from(">h", frame)
    (length,) = struct.unpack_from(">h", frame, 8)
    return key, frame[10 : 10 + max(length, 0)].decode()


class Middlebox:
    """A context manager: listens on `port` of loopback, goes on to `target`."""

    def __init__(self, port: int, target: int, harm: Harm) -> None:
        self._target, self._harm = target, harm
        self._open: list[socket.socket] = []
        self._server = socket.create_server((LOOPBACK, port))

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._server, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection((LOOPBACK, self._target))
                for one in (client, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += (client, broker)
                threading.Thread(
                    target=_pass_requests, args=(client, broker, self._harm), daemon=True
                ).start()
                threading.Thread(target=_pass_answers, args=(broker, client), daemon=True).start()


def _pass_requests(client: socket.socket, broker: socket.socket, harm: Harm) -> None:
    held = bytearray()
    with contextlib.suppress(OSError):
        while data := client.recv(1 << 16):
            held += data
            while len(held) >= 4 and len(held) >= 4 + (size := struct.unpack_from(">i", held)[0]):
                frame = harm(bytes(held[4 : 4 + size]))
                del held[: 4 + size]
                if frame is not None:
                    broker.sendall(struct.pack(">i", len(frame)) + frame)
        broker.shutdown(socket.SHUT_WR)


def _pass_answers(broker: socket.socket, client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := broker.recv(1 << 16):
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)
