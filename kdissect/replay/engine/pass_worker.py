"""Share of one process in a pass: its player with a pool, a transport and prepared requests.

In: a share of the requests with its part of the limits. Out: a `PassOutcome`. All that can be done before the
clock starts is done when the worker is made. The garbage collector looks at young objects only: what is known
of a capture stays anyway, however often it is visited.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from kdissect.files import is_full
from kdissect.memory import release_memory
from kdissect.replay.engine.dry_target import transport_for
from kdissect.replay.engine.fast_path.prepared_requests import prepare_requests
from kdissect.replay.engine.pass_results import PassOutcome, ResultTable
from kdissect.replay.engine.player import Player, PlayerSetup
from kdissect.replay.engine.run_limits import RunLimits, StopSignal
from kdissect.replay.engine.schedule import Schedule
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItem, indices_of
from kdissect.replay.load.spool import Spool
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.net.transport import drive, nonce, now_ns, wall_ns
from kdissect.replay.rewrite.batch_rewrite import modern, rewritten
from kdissect.replay.settings import ReplaySettings

COLLECT = (20_000, 20, 1 << 30)  # objects made, young collections, older ones: as for `gc.set_threshold`
LOOK_NS = 1_000_000_000
OLD_MESSAGE = bytes.fromhex("0000000000000000 0000000e b7bb0ed5 0000 ffffffff 00000000")  # of magic 0, empty


class Journal(Protocol):
    """File that records the state of a player while it sends."""

    due_ns: int  # when to write next, on the clock of the run

    def write(self, player: Player, start_ns: int, start_wall_ns: int) -> None:
        """Write down what has ended since the last time."""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """Inputs of a worker."""

    replay_input: ReplayInput
    context: ReplayContext
    items: Sequence[ReplayItem]  # its share of the requests
    settings: ReplaySettings  # with its part of the limits
    spool: Spool  # keeps its responses
    stop_signal: StopSignal
    journal: Journal | None = None
    out: Path | None = None  # where the files of the run will be written
    wall_shift_ns: int | None = None  # from the clock of the run to the time of day; None: this machine's
    results: ResultTable = field(default_factory=ResultTable)


class PassWorker:
    """The work of one process; to be made in that process."""

    def __init__(self, setup: WorkerSetup) -> None:
        settings, context = setup.settings, setup.context
        self._setup = setup
        self._done = False
        self._transport = transport_for(settings)
        self._pool = ConnectionPool(settings, context.cluster, self._transport, nonce)
        with collect_little():
            prepared = prepare_requests(context, setup.items)
        items = setup.replay_input.items
        if len(setup.items) < len(items):
            context.gates.limit_to(indices_of(setup.items, np.arange(len(setup.items), dtype=np.int32)))
        self._first_ns = next((item.request.first_ns for item in items if item.refusal is None), 0)
        ramp_ns = int(settings.ramp_s * 1e9)
        self._player = Player(
            PlayerSetup(
                replay_input=setup.replay_input,
                items=setup.items,
                context=context,
                pool=self._pool,
                schedule=Schedule(settings.pace, settings.speed, self._first_ns, 0, ramp_ns),
                limits=RunLimits(settings.caps, settings.breaker, setup.stop_signal),
                prepared=prepared,
                spool=setup.spool,
                finished=self._finish,
                results=setup.results,
            )
        )
        gc.freeze()

    def _finish(self) -> None:
        self._done = True

    @property
    def lead_ns(self) -> int:
        """Return how long before the first request it has to begin."""
        return self._player.lead_ns

    def play(self, start_ns: int) -> PassOutcome:
        """Send everything, the first request at `start_ns`."""
        shift_ns = self._setup.wall_shift_ns
        start_wall_ns = start_ns + (wall_ns() - now_ns() if shift_ns is None else shift_ns)
        self._setup.context.clock.shift_ns = start_wall_ns - self._first_ns
        with collect_little():
            drive(
                self._pool,
                self._transport,
                _TimedPlayer(self._player, self._setup, start_ns, start_wall_ns),
                partial(self._player.start, start_ns),
                lambda: self._done,
            )
        self._setup.spool.flush()
        return self._player.outcome()


class _TimedPlayer:
    """A player as the work that the transport drives, with its journal."""

    def __init__(self, player: Player, setup: WorkerSetup, start_ns: int, start_wall_ns: int) -> None:
        self._player, self._journal, self._out = player, setup.journal, setup.out
        self._started = start_ns, start_wall_ns
        self._look_ns = start_ns  # when to see whether there is room for the output

    @property
    def next_ns(self) -> int | None:
        return self._player.next_ns

    def wake(self) -> None:
        self._player.wake()
        if self._journal is not None and self._player.pool.now_ns >= self._journal.due_ns:
            self._journal.write(self._player, *self._started)
        now_ns = self._player.pool.now_ns
        if self._out is not None and now_ns >= self._look_ns:
            self._look_ns = now_ns + LOOK_NS
            if is_full(self._out.parent):
                self._player.stop(f"nothing more can be written to {self._out.parent}")

    def interrupt(self, _number: int, /) -> None:
        self._player.stop("interrupted")


@contextmanager
def collect_little() -> Iterator[None]:
    """Have the garbage collector look at young objects only."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*COLLECT)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def warm_up() -> None:
    """Compile what is compiled at first use, return freed memory, and let the collector forget what stays."""
    rewritten(modern(OLD_MESSAGE), 0, 0, 0)
    release_memory()  # that a plan has used
    gc.freeze()
