"""From the program that Spark starts as its daemon to the child that waits already (see `prefork`).

The job waits for this, so it imports next to nothing: with `json`, `pathlib`, `socket` and `struct` it took
0.04 s until it could connect, and takes 0.02. The program sends its arguments, its environment and its pipes
to the child, which then is the daemon, and ends when the child does.
"""

import _socket
import marshal
import os
import sys
from array import array

ADDRESS = "KDISSECT_STANDBY"  # environment variable: the socket at which the child waits
PIPES = (0, 1, 2)
TAKEN = b"1"  # what the child answers when it has taken over
LENGTH_BYTES = 8  # of the message behind it: a socket passes on as much as its buffer holds


def has_child() -> bool:
    """Return whether a child was forked, also if it has taken over already: its socket stays."""
    address = os.environ.get(ADDRESS)
    return address is not None and os.path.exists(address)


def hand_over() -> bool:
    """Hand pipes and environment of this process to the child and wait for its end.

    Return False if there is no child.
    """
    address = os.environ.get(ADDRESS)
    if not address:
        return False
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        return _is_taken(connection, address)
    finally:
        connection.close()


def _is_taken(connection: _socket.socket, address: str) -> bool:
    message = marshal.dumps((sys.argv, dict(os.environ)))
    pipes = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", PIPES)
    try:
        connection.connect(address)
        connection.sendmsg([len(message).to_bytes(LENGTH_BYTES)], [pipes])
        connection.sendall(message)
        if connection.recv(len(TAKEN)) != TAKEN:
            return False
    except OSError:
        return False
    for pipe in PIPES:
        os.close(pipe)
    connection.recv(1)
    return True
