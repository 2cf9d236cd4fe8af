"""A box on the way between clients and a broker that harms what passes, as a faulty proxy or a bad memory
cell does.

Requests are cut into frames, and `harm` says what becomes of each: the same bytes, others, or none at all.
Responses pass as they are. A capture of the broker's port shows what the box made of the requests.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable

from tests.lab.proxy import CHUNK, Proxy, pass_bytes, start

Harm = Callable[[bytes], bytes | None]


def client_of(frame: bytes) -> tuple[int, str]:
    """Return the API key and the client id of a request without its length."""
    (key,) = struct.unpack_from(">h", frame)
    (length,) = struct.unpack_from(">h", frame, 8)
    return key, frame[10 : 10 + max(length, 0)].decode()


class Middlebox(Proxy):
    """A proxy that asks `harm` what becomes of each request."""

    def __init__(self, port: int, target: int, harm: Harm) -> None:
        super().__init__(port, target)
        self._harm = harm

    def _pass_on(self, client: socket.socket, broker: socket.socket) -> None:
        start(_pass_requests, client, broker, self._harm)
        start(pass_bytes, broker, client)


def _pass_requests(client: socket.socket, broker: socket.socket, harm: Harm) -> None:
    held = bytearray()
    with contextlib.suppress(OSError):
        while data := client.recv(CHUNK):
            held += data
            while len(held) >= 4 and len(held) >= 4 + (size := struct.unpack_from(">i", held)[0]):
                frame = harm(bytes(held[4 : 4 + size]))
                del held[: 4 + size]
                if frame is not None:
                    broker.sendall(struct.pack(">i", len(frame)) + frame)
        broker.shutdown(socket.SHUT_WR)
