"""The middlebox passes frames whole, changes those that it is told to, and swallows others."""

from __future__ import annotations

import socket
import struct
import threading

from tests.lab import broker_requests as wire
from tests.lab.middlebox import Middlebox, client_of
from tests.lab.proxy import LOOPBACK


def framed(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def test_frames_pass_change_or_vanish() -> None:
    server = socket.create_server((LOOPBACK, 0))
    heard = bytearray()

    def listen() -> None:
        end, _ = server.accept()
        while data := end.recv(100):
            heard.extend(data)
        end.sendall(b"all heard")
        end.close()

    listener = threading.Thread(target=listen)
    listener.start()
    (port,) = wire.free_ports(1)
    harms = {b"one": b"one", b"two": b"TWO", b"three": None, b"four": b"four"}
    with Middlebox(port, server.getsockname()[1], harms.__getitem__), server:
        with socket.create_connection((LOOPBACK, port), 20) as client:
            whole = b"".join(framed(frame) for frame in harms)
            client.sendall(whole[:5])  # cut within a frame
            client.sendall(whole[5:])
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b"all heard"
        listener.join(20)
    assert bytes(heard) == framed(b"one") + framed(b"TWO") + framed(b"four")


def test_whose_frame_it_is() -> None:
    assert client_of(struct.pack(">hhih", 0, 9, 7, 5) + b"alice" + b"...") == (0, "alice")
    assert client_of(struct.pack(">hhih", 18, 3, 7, -1)) == (18, "")
