"""A port that closes each connection: `python -m tests.lab.incidents.closing_port ADDRESS PORT`.

A proxy or load balancer does so that has nothing behind it: it accepts, finds no server, and closes before
any byte came back."""

from __future__ import annotations

import socket
import sys
import time


def main() -> None:
    listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64)
    while True:
        connection, _ = listener.accept()
        with connection:
            time.sleep(0.002)  # as long as the attempt to reach what is behind it


if __name__ == "__main__":
    main()
