"""Messages between driver and workers, in this order for each worker.

    worker                               driver
    JOINED  number, host, process   ─►
                                    ◄─   ORDERS   `Orders`
    LOADED                          ─►
                                    ◄─   PASS     `PassOrders`
    CLOCK   t1 (several times)      ─►
                                    ◄─   CLOCK    t1, t2, t3
    READY   `ReadyFacts`            ─►
                                    ◄─   START    start_ns, start_wall_ns (of the driver)
    PROGRESS  what has ended        ─►
    PLAYED  `PlayedFacts`, outcome  ─►
                                    ◄─   WRITE
    WRITTEN                         ─►
                                    ◄─   PASS again, or END

A run into memory has no WRITE and WRITTEN, since nothing is written.

Either side may send ALIVE at any time, STOP while requests are sent, and a worker FAILED. Who is silent for
`LOST_S` is gone. The driver trusts the workers that it has let in, as any driver of Spark does: an outcome is
a pickled object.
"""

import hashlib
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from kdissect.replay.load.log_files import FACTS
from kdissect.replay.machines.clock_offset import ClockOffset
from kdissect.replay.settings import ReplaySettings


class MessageKind(StrEnum):
    """Subject of a message, as the module's text shows."""

    JOINED = "joined"
    ORDERS = "orders"
    LOADED = "loaded"
    PASS = "pass"  # noqa: S105 - a pass of a run, no password
    CLOCK = "clock"
    READY = "ready"
    START = "start"
    PROGRESS = "progress"
    PLAYED = "played"
    WRITE = "write"
    WRITTEN = "written"
    STOP = "stop"
    FAILED = "failed"
    ALIVE = "alive"
    END = "end"


ALIVE_S = 1.0  # between two signs of life
LOST_S = 15.0  # of silence, after which the other end is gone
FEED_NS = 500_000_000  # between two reports of progress


@dataclass(frozen=True, slots=True)
class Orders:
    """Facts that a worker needs to load the log and to ask the target."""

    log: str  # its path, the same on all machines
    digest: str  # of the log's facts, see `log_digest`
    settings: ReplaySettings
    cluster_id: str | None  # of the target, as the driver sees it
    authority: bytes | None = None  # content of the files that TLS needs
    certificate: bytes | None = None


@dataclass(frozen=True, slots=True)
class PassOrders:
    """Share of a worker in a pass."""

    number: int  # of the pass
    owners: dict[int, int]  # connection -> worker
    settings: ReplaySettings  # with the worker's part of the limits
    out: str  # the directory that the worker's own one is made in; "": nothing is written
    wall_shift_ns: int  # of the driver: from the clock of the run to the time of day


@dataclass(frozen=True, slots=True)
class ReadyFacts:
    """Facts that a worker reports before it starts."""

    lead_ns: int
    offset_ns: int
    error_ns: int  # by how much the offset may be wrong
    wall_offset_ns: int  # by which its time of day is ahead of the driver's

    @property
    def clock(self) -> ClockOffset:
        """Return the offset from the driver's clock to the worker's."""
        return ClockOffset(self.offset_ns, self.error_ns)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the facts of a message."""
        return cls(**values)

    def values(self) -> dict[str, Any]:
        """Return the facts as values of a message."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PlayedFacts:
    """Facts about the clock and about the time of sending that a worker reports when it has ended."""

    first_late_ns: int  # how much later than due its first request left
    offset_ns: int
    error_ns: int
    sent: int = 0  # requests,
    first_sent_ns: int = 0  # the first and the last of them on the worker's clock
    last_sent_ns: int = 0

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the facts of a message."""
        return cls(**values)

    def values(self) -> dict[str, Any]:
        """Return the facts as values of a message."""
        return asdict(self)


def log_digest(log: Path) -> str:
    """Return what tells a log from all others. Raise OSError if it cannot be read."""
    return hashlib.sha256((log / FACTS).read_bytes()).hexdigest()


def worker_name(number: int, host: str) -> str:
    """Return how a worker is named to the user."""
    return f"worker {number} on {host}"


def worker_folder(number: int) -> str:
    """Return the name of the directory with the files of a worker."""
    return f"worker-{number}"
