"""Workers of a replay as processes of this machine, started without Spark; and a network that goes away."""

from __future__ import annotations

import dataclasses
import pickle
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from kdissect.replay.engine.run import Replay
from kdissect.replay.machines.channel import Invitation
from kdissect.replay.machines.machines_run import MachinesRun
from kdissect.replay.machines.remote_workers import RemoteWorkers, WhenLost
from kdissect.replay.plan import make_plan
from kdissect.replay.results.pass_rate import WorkerRate
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_files import read_run
from kdissect.replay.settings import ReplaySettings
from tests.helpers.command import environment

PROGRAM = """
import pickle, sys
from kdissect.replay.machines.part_worker import send_part
send_part(int(sys.argv[1]), pickle.loads(sys.stdin.buffer.read()))
"""


@contextmanager
def workers(invitations: Sequence[Invitation]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run a worker for each invitation, with its number."""
    started = []
    for number, invitation in enumerate(invitations):
        command = [sys.executable, "-c", PROGRAM, str(number)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment(KDISSECT_JIT="0"))
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(invitation))
        process.stdin.close()
        started.append(process)
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


class Relay:
    """Forwards connections to a port until it is cut: then nothing comes through, and nobody is told."""

    def __init__(self, invitation: Invitation) -> None:
        self._there = invitation.host, invitation.port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.invitation = dataclasses.replace(
            invitation, host="127.0.0.1", port=self._listener.getsockname()[1]
        )
        self._cut = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        """Forward nothing any more."""
        self._cut.set()

    def _serve(self) -> None:
        here, _ = self._listener.accept()
        there = socket.create_connection(self._there)
        with suppress(OSError):  # a worker that was killed
            while not self._cut.is_set():
                for ready in select.select([here, there], [], [], 0.1)[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    (there if ready is here else here).sendall(data)
        if not self._cut.is_set():
            return
        threading.Event().wait(60)  # keep both connections open


def run(
    settings: ReplaySettings,
    log: Path,
    out: Path,
    count: int = 2,
    while_sending: Callable[[RemoteWorkers, list[subprocess.Popen[bytes]], list[Relay]], None] | None = None,
    when_lost: WhenLost = WhenLost.STOP,
    lost_s: float = 15.0,
) -> dict[str, Any]:
    """Replay a log by some workers; return the comparison. Something may happen while they send."""
    with closing(Replay(settings, [str(log)])) as replay:
        replay.learn()
        remote = RemoteWorkers("127.0.0.1", "", count, settings.breaker, when_lost, lost_s)
        relays = [Relay(remote.invitation) for _ in range(count)]
        with closing(remote), workers([relay.invitation for relay in relays]) as processes:
            if while_sending is not None:
                happening = threading.Thread(
                    target=while_sending, args=(remote, processes, relays), daemon=True
                )
                happening.start()
            remote.gather()
            (place,) = MachinesRun(replay, log, remote, lambda _line: None).play(out, make_plan(replay))
    return compare(*read_run(place))


def run_into_memory(settings: ReplaySettings, log: Path, count: int = 2) -> list[list[WorkerRate]]:
    """Replay a log by some workers to targets in memory; return how fast each of them was, by pass."""
    with closing(Replay(settings, [str(log)])) as replay:
        replay.learn()
        remote = RemoteWorkers("127.0.0.1", "", count, settings.breaker)
        with closing(remote), workers([remote.invitation] * count):
            remote.gather()
            return MachinesRun(replay, log, remote, lambda _line: None).play_into_memory()
