"""A monitor of ports: `python -m tests.lab.incidents.health_check SECONDS ADDRESS:PORT …`.

Every so many seconds it opens a connection to each address and closes it at once. Each third round sends an
HTTP request instead and waits for what comes, as checks do that were made for web servers."""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import time


def check(host: str, port: int, http: bool) -> None:
    """Open one connection, ask for a page if `http`, and close it."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), 2) as connection:
        if http:
            connection.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            connection.settimeout(1)
            connection.recv(4096)


def main() -> None:
    pause, targets = float(sys.argv[1]), sys.argv[2:]
    for number in itertools.count():
        for target in targets:
            host, port = target.rsplit(":", 1)
            check(host, int(port), http=number % 3 == 2)
        time.sleep(pause)


if __name__ == "__main__":
    main()
