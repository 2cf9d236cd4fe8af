"""The workers of a run, as the driver knows them: who has joined, what each tells, who was lost.

A thread for each worker reads its channel, measures its clock with it, and notes when it was heard of last.
Everything else happens where `expect` is called. A worker is lost when its connection ends or it is silent
for `LOST_S`. Before requests are sent, a lost worker ends the run. While they are sent, the others stop, or
go on if the user has chosen so.

The circuit breaker judges the last ten seconds of all workers together.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Any

from kdissect.errors import UserError
from kdissect.replay.engine.run_limits import RecentEnds
from kdissect.replay.machines.channel import Channel, ChannelClosed, ChannelMessage, Invitation, Listener
from kdissect.replay.machines.progress_feed import PartLedger
from kdissect.replay.machines.run_messages import ALIVE_S, LOST_S, MessageKind, worker_name
from kdissect.replay.net.transport import now_ns
from kdissect.replay.settings import Breaker

LOOK_S = 0.2  # how long an event is waited for at a time, so that Ctrl-C is heard
JOIN_S = 300.0  # for all workers, whose interpreters may have to be unpacked first
MOST_UNKNOWN = 32  # connections that have not told the token yet


class WhenLost(StrEnum):
    """Choice of what the other workers do if one is lost while requests are sent."""

    STOP = "stop"
    CONTINUE = "continue"


class WorkersFailed(Exception):
    """Workers could not start, or one failed; the message names it. A defect, or one of the cluster."""


class WorkerUnfit(UserError):
    """A worker cannot do its part; the message names it and why."""


@dataclass(slots=True)
class RemoteWorker:
    """One worker, from when it has joined."""

    number: int
    channel: Channel
    host: str
    process: int
    lost: str = ""  # why
    recent: RecentEnds | None = None  # None: it has not reported yet
    ledger: PartLedger = field(default_factory=lambda: PartLedger(()))

    @property
    def name(self) -> str:
        """Return the name that the user sees."""
        return worker_name(self.number, self.host)


class RemoteWorkers:
    """All workers of a run, to be closed."""

    def __init__(
        self,
        host: str,
        address: str,
        count: int,
        breaker: Breaker,
        when_lost: WhenLost = WhenLost.STOP,
        lost_s: float = LOST_S,
    ) -> None:
        """Listen for so many workers at an address, which they reach as `host`."""
        self.count, self.workers = count, dict[int, RemoteWorker]()
        self.sending, self.stopped = False, ""
        self._breaker, self._when_lost, self._lost_s = breaker, when_lost, lost_s
        self._events: SimpleQueue[tuple[int, ChannelMessage | Exception]] = SimpleQueue()
        self._held: list[tuple[int, ChannelMessage]] = []  # of kinds that nobody has expected yet
        self._closed = threading.Event()
        self._joining = threading.Lock()
        self._unknown = threading.Semaphore(MOST_UNKNOWN)
        self._listener = Listener(host, address)
        for target in (self._accept, self._keep_alive):
            threading.Thread(target=target, name="remote-workers", daemon=True).start()

    @property
    def invitation(self) -> Invitation:
        """Return the facts that workers need to join."""
        return self._listener.invitation

    def close(self) -> None:
        """End the workers."""
        self._closed.set()
        self._listener.close()
        for worker in self.workers.values():
            self._tell(worker, MessageKind.END)
            worker.channel.close()

    # From the driver

    def job_failed(self, error: Exception) -> None:
        """Note that whoever starts the workers has failed."""
        self._events.put((-1, error))

    def gather(self) -> None:
        """Wait until all workers have joined. Raise what kept them from it."""
        until_s = time.monotonic() + JOIN_S
        while len(self.workers) < self.count:
            self._next_event()
            if time.monotonic() > until_s:
                raise WorkersFailed(f"{len(self.workers)} of {self.count} workers joined within {JOIN_S:g} s")
        self._listener.close()

    def tell(self, kind: str, bodies: Callable[[RemoteWorker], bytes] | None = None, **values: Any) -> None:
        """Send a message to all workers that are there; each has its own body."""
        for worker in self._present():
            self._tell(worker, kind, bodies(worker) if bodies else b"", **values)

    def expect(self, kind: str) -> dict[int, ChannelMessage]:
        """Return a message of this kind of each worker, without those that are lost by then."""
        came: dict[int, ChannelMessage] = {}
        held, self._held = self._held, []
        for number, message in held:
            if message.kind == kind:
                came[number] = message
            else:
                self._held.append((number, message))
        while any(worker.number not in came for worker in self._present()):
            try:
                event = self._next_event()
            except KeyboardInterrupt:
                if not self.sending:
                    raise
                self.stop("interrupted")
                continue
            if event is not None and event[1].kind == kind:
                came[event[0]] = event[1]
            elif event is not None:
                self._held.append(event)
        return came

    def stop(self, reason: str) -> None:
        """Have all workers stop in order. The first reason stays."""
        if not self.stopped:
            self.stopped = reason
        self.tell(MessageKind.STOP, reason=self.stopped)

    def lost(self) -> list[RemoteWorker]:
        """Return the workers that are lost."""
        return [worker for worker in self.workers.values() if worker.lost]

    def _present(self) -> Sequence[RemoteWorker]:
        return [worker for worker in list(self.workers.values()) if not worker.lost]

    def _tell(self, worker: RemoteWorker, kind: str, body: bytes = b"", **values: Any) -> None:
        try:
            worker.channel.send(kind, body, **values)
        except ChannelClosed as error:
            self._events.put((worker.number, error))

    # From the workers

    def _next_event(self) -> tuple[int, ChannelMessage] | None:
        """Return the next message that somebody may expect; None if there was none, or another event."""
        try:
            number, event = self._events.get(timeout=LOOK_S)
        except Empty:
            return None
        if number < 0:
            if not self.sending and isinstance(event, Exception):
                raise event
            return None  # channels tell who is lost
        worker = self.workers[number]
        if isinstance(event, Exception):
            self._lose(worker, f"{worker.name} is gone: {event}")
        elif event.kind == MessageKind.FAILED:
            self._fail(worker, event)
        elif event.kind == MessageKind.STOP:
            self.stop(_with_worker(event.values["reason"], worker))
        elif event.kind == MessageKind.PROGRESS:
            self._note(worker, event)
        elif not worker.lost:
            return number, event
        return None

    def _note(self, worker: RemoteWorker, event: ChannelMessage) -> None:
        try:
            worker.ledger.add(event.body)
            worker.recent = RecentEnds(*map(int, event.values["recent"]))
        except (ValueError, TypeError, KeyError) as error:
            self._lose(worker, f"{worker.name} sent what no worker sends ({error})")
            return
        recents = [each.recent for each in self._present() if each.recent is not None]
        if self.stopped or len(recents) < len(self._present()):  # one of them may be all that has failed
            return
        requests, errors, throttled = map(sum, zip(*recents, strict=True))
        reason = RecentEnds(requests, errors, throttled).reason_to_stop(self._breaker)
        if reason:
            self.stop(reason)

    def _fail(self, worker: RemoteWorker, event: ChannelMessage) -> None:
        reason = f"{worker.name}: {event.values['reason']}"
        if not self.sending:
            raise WorkerUnfit(reason) if event.values["by_user"] else WorkersFailed(reason)
        self._lose(worker, f"{worker.name} failed: {event.values['reason']}")

    def _lose(self, worker: RemoteWorker, reason: str) -> None:
        if worker.lost or self._closed.is_set():
            return
        worker.lost = reason
        worker.channel.close()
        if not self.sending:
            raise WorkersFailed(reason)
        if self._when_lost is WhenLost.STOP:
            self.stop(reason)

    # Threads

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection = self._listener.accept()
            except OSError:
                return
            if self._unknown.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:  # noqa: TID251 - it is only handed on
        try:
            worker = self._admit(connection)
        except ChannelClosed:
            return  # it does not know the token
        finally:
            self._unknown.release()
        if worker is not None:
            try:
                self._listen(worker)
            except ChannelClosed as error:
                self._events.put((worker.number, error))

    def _admit(self, connection: socket.socket) -> RemoteWorker | None:  # noqa: TID251 - as above
        """Return who has come; None if its number is taken. Raise ChannelClosed for one without the token."""
        channel = self._listener.admit(connection)
        joined = channel.receive(self._lost_s)
        if joined is None or joined.kind != MessageKind.JOINED:
            channel.close()
            return None
        values = joined.values
        worker = RemoteWorker(int(values["number"]), channel, str(values["host"]), int(values["process"]))
        with self._joining:
            if not 0 <= worker.number < self.count or worker.number in self.workers:
                channel.close()  # such as a task that Spark has started again
                return None
            self.workers[worker.number] = worker
        return worker

    def _listen(self, worker: RemoteWorker) -> None:
        heard_s = time.monotonic()
        while not self._closed.is_set():
            message = worker.channel.receive(ALIVE_S)
            if message is None:
                if time.monotonic() - heard_s > self._lost_s:
                    raise ChannelClosed(f"it was silent for {self._lost_s:g} s")
                continue
            heard_s = time.monotonic()
            if message.kind == MessageKind.CLOCK:
                t1, t2 = message.values["t1"], message.received_ns
                worker.channel.send(MessageKind.CLOCK, t1=t1, t2=t2, t3=now_ns())
            elif message.kind != MessageKind.ALIVE:
                self._events.put((worker.number, message))

    def _keep_alive(self) -> None:
        while not self._closed.wait(ALIVE_S):
            self.tell(MessageKind.ALIVE)


def _with_worker(reason: str, worker: RemoteWorker) -> str:
    """Return why a worker has stopped, with its name."""
    return f"{reason} ({worker.name})"
