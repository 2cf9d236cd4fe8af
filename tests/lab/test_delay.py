"""`tests.lab.delay`: answers come later, in order, and nothing else changes."""

from __future__ import annotations

import socket
import threading
import time

from tests.lab.broker_requests import free_ports
from tests.lab.delay import DelayingProxy


def test_answers_come_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            connection, _ = server.accept()
            while data := connection.recv(100):
                connection.sendall(data)

        threading.Thread(target=echo, daemon=True).start()
        (port,) = free_ports(1)
        proxy = DelayingProxy(port, server.getsockname()[1])
        with proxy, socket.create_connection(("127.0.0.1", port)) as client:
            proxy.delay_s = 0.2
            began = time.monotonic()
            client.sendall(b"slow")
            assert client.recv(100) == b"slow"
            assert time.monotonic() - began >= 0.2
            proxy.delay_s = 0.0
            client.sendall(b"again")
            assert client.recv(100) == b"again"
