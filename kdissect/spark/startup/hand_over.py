"""From the program that Spark starts as its daemon to the child that waits already (see `prefork`).

The job waits for this, so it imports next to nothing. The program sends its arguments, its environment and
its pipes to the child, which then is the daemon, and ends when the child does.
"""

import json
import os
import socket
import struct
import sys
from pathlib import Path

ADDRESS = "KDISSECT_STANDBY"  # environment variable: the socket at which the child waits
PIPES = (0, 1, 2)
TAKEN = b"1"  # what the child answers when it has taken over
LENGTH = struct.Struct("!Q")  # of the message behind it: a socket passes on as much as its buffer holds


def has_child() -> bool:
    """Return whether a child was forked, also if it has taken over already: its socket stays."""
    address = os.environ.get(ADDRESS)
    return address is not None and Path(address).exists()


def hand_over() -> bool:
    """Hand pipes and environment of this process to the child and wait for its end.

    Return False if there is no child.
    """
    address = os.environ.get(ADDRESS)
    if not address:
        return False
    with socket.socket(socket.AF_UNIX) as connection:  # noqa: TID251 - between two processes of one run
        try:
            connection.connect(address)
            message = json.dumps([sys.argv, dict(os.environ)]).encode()
            socket.send_fds(connection, [LENGTH.pack(len(message))], PIPES)
            connection.sendall(message)
            if connection.recv(len(TAKEN)) != TAKEN:
                return False
        except OSError:
            return False
        for pipe in PIPES:
            os.close(pipe)
        connection.recv(1)
    return True
