"""A port that answers no SYN: `python -m tests.lab.incidents.deaf_port ADDRESS PORT`.

A listener that accepts nobody and whose queue is full: Linux drops all further SYNs, as a firewall does
that refuses nothing. Prints a line when the queue is full, and ends with its process."""

from __future__ import annotations

import signal
import socket
import sys


def main() -> None:
    address = (sys.argv[1], int(sys.argv[2]))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(0)
    waiting = []
    while True:
        try:
            waiting.append(socket.create_connection(address, 0.5))
        except TimeoutError:
            break
    print(f"deaf behind {len(waiting)} connections", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
