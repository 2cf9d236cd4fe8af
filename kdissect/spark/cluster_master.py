"""The master of a standalone Spark cluster: a connection before Spark starts, a notice while it is silent.

Spark asks a master for a minute and tells only its own log. A master that is not there would look like a
command that hangs, so this process connects first. It learns at once that nothing listens at an address, or
that nobody knows a name. A host that takes the connection may still be silent: then Spark gives up after its
minute.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from kdissect.errors import UserError
from kdissect.spark.executor_slots import PATIENCE_S
from kdissect.text import format_address, parse_address

SCHEME = "spark://"
REACHED_S = 15.0
SILENT = "the master of the Spark cluster has not answered yet (--master)"


class MasterError(UserError):
    """No master of the cluster can be reached; the message is one sentence."""


def check_master(url: str, notice: Callable[[str], None]) -> None:
    """Raise MasterError unless a connection to a master at `url` is possible; other clusters have no address.

    A cluster may have several masters, of which one serves. Each is tried at the same time.
    """
    if not url.startswith(SCHEME):
        return
    addresses = _addresses(url)
    failures: SimpleQueue[str] = SimpleQueue()
    for address in addresses:
        threading.Thread(target=_connect, args=(address, failures), name="master", daemon=True).start()
    failure = ""
    with silence_noticed(url, notice):
        for _ in addresses:
            failure = failures.get()
            if not failure:
                return
    raise MasterError(failure)


@contextmanager
def silence_noticed(url: str, notice: Callable[[str], None]) -> Iterator[None]:
    """Send a notice if the block, which needs the master at `url`, takes long."""
    timer = threading.Timer(PATIENCE_S, notice, [SILENT])
    timer.daemon = True
    if url.startswith(SCHEME):
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _addresses(url: str) -> list[tuple[str, int]]:
    """Return host and port of each master. Raise MasterError."""
    found = []
    for text in url.removeprefix(SCHEME).split(","):
        try:
            host, port = parse_address(text)
        except ValueError:
            host, port = "", None
        if not host or port is None:
            raise MasterError(f"{url} is not the address of a Spark master; example: spark://host:7077")
        found.append((host, port))
    return found


def _connect(address: tuple[str, int], failures: SimpleQueue[str]) -> None:
    """Put a sentence on why a master cannot be reached; an empty one if it can."""
    failure = ""
    try:
        socket.create_connection(address, REACHED_S).close()  # noqa: TID251 - to a master that the user names
    except (OSError, UnicodeError) as error:  # the latter for a name that is too long
        reason = getattr(error, "strerror", None) or str(error)
        failure = (
            f"the Spark master {format_address(*address)} cannot be reached: {reason.lower()} (--master)"
        )
    failures.put(failure)
