"""The daemon of the Python workers, forked and loaded before Spark asks for it.

Spark makes its Python workers by forking a daemon, which it starts with the first job. Only then would that
daemon import NumPy, PyArrow and Numba and load the compiled kernels, while the job waits. This process has
loaded most of that for itself, so it forks a child while the JVM starts. The child loads the compiled kernels
and waits. The program that Spark starts as its daemon (`worker_daemon`) hands its pipes and its environment
over to the child (`hand_over`), which then is the daemon.

On the executors of a cluster there is no such child; there, and if anything here fails, the daemon loads
everything.
"""

import gc
import marshal
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from kdissect.capture.storage import has_clients
from kdissect.jit import kernel_cache
from kdissect.memory import loading
from kdissect.spark.startup import load_once
from kdissect.spark.startup.hand_over import LENGTH_BYTES, PIPES, TAKEN
from kdissect.startup_switch import Shortcut, is_on

SOCKET = "standby"  # its name in the directory of the run
LONGEST_ADDRESS = 100  # bytes: Linux takes 107 (unix(7)), others a few less


def preload(kernels: bool = True) -> None:
    """Load what a worker needs; with `kernels`, also the compiled loops of workers that dissect.

    A warm-up that fails is ignored: the job would fail in the same way and report it.
    """
    with loading():
        load_once.load()
        # Uncompiled kernels have nothing to load.
        if kernels and is_on(Shortcut.WARM_UP) and os.environ.get(kernel_cache.SWITCH) != "0":
            with suppress(Exception):
                from kdissect.spark.startup.warmup import warm_up

                warm_up()
    gc.freeze()  # else the garbage collection after each task takes 0.1 s, for all that was loaded here


def can_prefork(address: Path) -> bool:
    """Return whether a child can be forked here, and reached at a socket.

    A process that has used uvloop cannot: after each fork libuv closes its descriptors by their numbers,
    which are those of other files in a daemon that has closed what it inherited. Nor can one with clients of
    object stores, whose threads a fork loses: its workers would wait for them without end.
    """
    is_able = hasattr(os, "fork") and "uvloop" not in sys.modules and not has_clients()
    return is_able and fits_socket(address)


def fits_socket(address: Path) -> bool:
    """Return whether a path may be the address of a socket. A long TMPDIR leaves no room for it."""
    return len(os.fsencode(address)) <= LONGEST_ADDRESS


class PreforkedDaemon:
    """A forked child that waits at a socket. It ends with this process, or with the Spark that it serves."""

    def __init__(self, address: Path) -> None:
        """Fork. Call this before the process starts threads, which a fork would lose."""
        listener = socket.socket(socket.AF_UNIX)  # noqa: TID251 - between two processes of one run
        listener.bind(str(address))
        listener.listen()
        alive, self._alive = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            _close_all_but(listener.fileno(), alive)
            _wait_for_daemon(listener, alive)
        os.close(alive)
        listener.close()

    def end(self) -> None:
        """End the child and wait for it."""
        os.close(self._alive)
        with suppress(OSError):
            os.kill(self._child, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(self._child, 0)


def _close_all_but(*kept: int) -> None:
    """Close what a fork inherits.

    Locks, the pipe to the parent, the JVM's standard input (whose end ends the JVM).
    """
    edges = [len(PIPES) - 1, *sorted(kept), os.sysconf("SC_OPEN_MAX")]
    for below, above in pairwise(edges):
        os.closerange(below + 1, above)


def _wait_for_daemon(listener: socket.socket, alive: int) -> None:  # noqa: TID251
    """Run the child: load, wait for the daemon to hand over, then be the daemon. Never return."""
    try:
        os.setpgid(0, 0)  # Ctrl-C is for the parent
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        preload()
        ready, _, _ = select.select([listener.fileno(), alive], [], [])
        if listener.fileno() in ready:
            _become_daemon(listener)
    finally:
        os._exit(0)


def take_over(connection: socket.socket) -> tuple[bytes, list[int]]:  # noqa: TID251
    """Return what `hand_over` sends: the message, and the descriptors of the pipes."""
    size, pipes, _, _ = socket.recv_fds(connection, LENGTH_BYTES, len(PIPES))
    with connection.makefile("rb") as sent:
        return sent.read(int.from_bytes(size)), pipes


def _become_daemon(listener: socket.socket) -> None:  # noqa: TID251
    connection, _ = listener.accept()
    listener.close()  # Spark starts another daemon for another environment, which must not find this child
    message, pipes = take_over(connection)
    for number, pipe in zip(PIPES, pipes, strict=True):
        os.dup2(pipe, number)
        os.close(pipe)
    arguments, environment = marshal.loads(message)  # noqa: S302 - of a program of this run
    # A notebook or a test may have replaced the streams; the daemon writes its port to the real ones.
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, closefd=False)  # noqa: SIM115
        for number, mode in zip(PIPES, "rww", strict=True)
    )
    sys.argv = arguments
    os.environ.clear()
    os.environ.update(environment)
    from pyspark import daemon

    connection.send(TAKEN)
    daemon.manager()
