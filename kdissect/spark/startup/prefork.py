"""A Python that is ready before Spark asks for one.

Spark makes its Python workers by forking a daemon, which it starts when the first job comes: only then would that daemon
import NumPy, PyArrow and Numba and load the compiled loops, while everybody waits. So this process, which has most of that
loaded for its own use, forks a standby while the JVM is still starting. The standby loads the rest and waits. What Spark
starts as its daemon (`daemon.py`) hands its pipes and its environment over to the standby, which goes on as the daemon.

Where there is no standby (on the executors of a cluster, or if anything here fails) the daemon loads everything itself.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from kdissect.jit import kernel_cache

ADDRESS = "KDISSECT_STANDBY"  # environment variable: the socket at which the standby waits
SOCKET = "standby"  # its name in the directory of the run
LONGEST_ADDRESS = 100  # bytes: Linux takes 107 (unix(7)), others a few less
PIPES = (0, 1, 2)
TAKEN = b"1"  # what the standby answers when it has taken over
MOST_TOLD = 1 << 20  # bytes of arguments and environment
PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
)


def preload() -> None:
    """Load what a worker needs. A rehearsal that fails is passed over: the same failure comes again in the job."""
    for name in PRELOADED:
        importlib.import_module(name)
    with suppress(Exception):
        from kdissect.spark.startup.warmup import warm_up

        if os.environ.get(kernel_cache.SWITCH) != "0":  # uncompiled loops have nothing to load
            warm_up()
    gc.collect()
    gc.freeze()  # workers collect garbage after each task: a tenth of a second if they had to look at all that was loaded


def can_prefork(address: Path) -> bool:
    """Say whether a standby can be had here: a long TMPDIR leaves no room for the address of a socket."""
    return hasattr(os, "fork") and len(os.fsencode(address)) <= LONGEST_ADDRESS


class PreforkedDaemon:
    """A forked child that waits at a socket; it ends with this process, or with the Spark that took it."""

    def __init__(self, address: Path) -> None:
        """Fork. To be called before this process starts threads, which a fork would lose."""
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
        """Let go of the child and wait for its end."""
        os.close(self._alive)
        with suppress(OSError):
            os.kill(self._child, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(self._child, 0)


def _close_all_but(*kept: int) -> None:
    """Let go of what a fork inherits: the JVM's standard input, whose end tells the JVM to end, locks, the pipe to the parent."""
    edges = [len(PIPES) - 1, *sorted(kept), os.sysconf("SC_OPEN_MAX")]
    for below, above in pairwise(edges):
        os.closerange(below + 1, above)


def _wait_for_daemon(listener: socket.socket, alive: int) -> None:  # noqa: TID251
    """Be the child: load, wait for the daemon to hand over, then be the daemon. Never returns."""
    try:
        os.setpgid(0, 0)  # Ctrl-C is for the parent
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        preload()
        ready, _, _ = select.select([listener.fileno(), alive], [], [])
        if listener.fileno() in ready:
            _become_daemon(listener)
    finally:
        os._exit(0)


def _become_daemon(listener: socket.socket) -> None:  # noqa: TID251
    connection, _ = listener.accept()
    listener.close()  # Spark starts another daemon for another environment: it must find nobody here
    told, pipes, _, _ = socket.recv_fds(connection, MOST_TOLD, len(PIPES))
    for number, pipe in zip(PIPES, pipes, strict=True):
        os.dup2(pipe, number)
        os.close(pipe)
    arguments, environment = json.loads(told)
    # Whoever imports kdissect may have other streams in their place (a notebook, a test); the daemon tells its port here.
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


def hand_over() -> bool:
    """Give this process's pipes and environment to the standby, and stay until it ends; False if there is none."""
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
