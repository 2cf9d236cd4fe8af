"""From the program that Spark starts as its daemon to the child that waits already (see `prefork`).

The job waits for this, so it imports next to nothing. The program sends its arguments, its environment and
its pipes to the child, which then is the daemon, and ends when the child does.
"""

import json
import os
import socket
import sys
from pathlib import Path

ADDRESS = "KDISSECT_STANDBY"  # environment variable: the socket at which the child waits
PIPES = (0, 1, 2)
TAKEN = b"1"  # what the child answers when it has taken over


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
            socket.send_fds(connection, [json.dumps([sys.argv, dict(os.environ)]).encode()], PIPES)
            if connection.recv(len(TAKEN)) != TAKEN:
                return False
        except OSError:
            return False
        for pipe in PIPES:
            os.close(pipe)
        connection.recv(1)
    return True
