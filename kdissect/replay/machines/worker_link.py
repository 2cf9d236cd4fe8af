"""A worker's end of the channel: it hears the driver and tells of itself while the worker sends.

Two threads do that, so that whoever sends requests never waits for the driver: one reads, one writes. If the
driver asks for a stop, is gone, or is silent for too long, the stop signal is given.
"""

import threading
import time
from queue import Empty, SimpleQueue
from typing import Any

from kdissect.replay.engine.run_limits import StopSignal
from kdissect.replay.machines.channel import Channel, ChannelClosed, ChannelMessage
from kdissect.replay.machines.clock_offset import ROUNDS, ClockOffset, ClockSample, best_offset
from kdissect.replay.machines.run_messages import ALIVE_S, LOST_S, MessageKind
from kdissect.replay.net.transport import now_ns

CLOSING_S = 30.0  # for what is left to be told


class DriverGone(Exception):
    """The driver is gone, so there is nobody to send for."""


class RemoteStopSignal(StopSignal):
    """A stop signal that the driver hears, too."""

    def __init__(self, link: "DriverLink") -> None:
        super().__init__()
        self._link = link

    def give(self, reason: str) -> None:
        """Have all workers stop."""
        if not self.reason:
            super().give(reason)
            self._link.send(MessageKind.STOP, reason=reason)

    def hear(self, reason: str) -> None:
        """Have this worker stop, since the driver says so or is gone."""
        super().give(reason)


class DriverLink:
    """The driver, as a worker reaches it."""

    def __init__(self, channel: Channel, lost_s: float = LOST_S) -> None:
        self._channel, self._lost_s = channel, lost_s
        self._incoming: SimpleQueue[ChannelMessage | None] = SimpleQueue()  # None: the driver is gone
        self._outgoing: SimpleQueue[tuple[str, bytes, dict[str, Any]] | None] = SimpleQueue()
        self.stop_signal = RemoteStopSignal(self)
        self._gone = ""
        self._writer = threading.Thread(target=self._write, name="to-driver", daemon=True)
        self._writer.start()
        threading.Thread(target=self._read, name="from-driver", daemon=True).start()

    def send(self, kind: str, body: bytes = b"", **values: Any) -> None:
        """Have a message sent, after those before."""
        self._outgoing.put((kind, body, values))

    def wait(self, *kinds: str) -> ChannelMessage:
        """Return the next message of some kinds. Raise DriverGone."""
        while (message := self._incoming.get()) is not None:
            if message.kind in kinds:
                return message
        self._incoming.put(None)
        raise DriverGone(self._gone)

    def clock_offset(self) -> ClockOffset:
        """Return how far the clocks of driver and worker are apart. Raise DriverGone."""
        samples = []
        for _ in range(ROUNDS):
            try:
                self._channel.send(MessageKind.CLOCK, t1=now_ns())
            except ChannelClosed as error:
                raise DriverGone(str(error)) from None
            message = self.wait(MessageKind.CLOCK)
            samples.append(ClockSample(**message.values, t4=message.received_ns))
        return best_offset(samples)

    def close(self) -> None:
        """Send what is left, and close the channel."""
        self._outgoing.put(None)
        self._writer.join(CLOSING_S)
        self._channel.close()

    def _write(self) -> None:
        while True:
            try:
                message = self._outgoing.get(timeout=ALIVE_S)
            except Empty:
                message = (MessageKind.ALIVE, b"", {})
            if message is None:
                return
            kind, body, values = message
            try:
                self._channel.send(kind, body, **values)
            except ChannelClosed as error:
                self._lose(str(error))
                return

    def _read(self) -> None:
        heard_s = time.monotonic()
        try:
            while True:
                message = self._channel.receive(ALIVE_S)
                if message is not None:
                    heard_s = time.monotonic()
                    self._take(message)
                elif time.monotonic() - heard_s > self._lost_s:
                    self._lose(f"it was silent for {self._lost_s:g} s")
                    return
        except ChannelClosed as error:
            self._lose(str(error))

    def _take(self, message: ChannelMessage) -> None:
        if message.kind == MessageKind.STOP:
            self.stop_signal.hear(message.values["reason"])
        elif message.kind != MessageKind.ALIVE:
            self._incoming.put(message)

    def _lose(self, reason: str) -> None:
        self._gone = self._gone or f"the driver of the run is gone: {reason}"
        self.stop_signal.hear(self._gone)
        self._incoming.put(None)
