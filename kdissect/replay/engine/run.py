"""A replay from its beginning to its end: load, ask the target, plan, play, write.

The parts know nothing of each other's making; here they are put together, once for plans and runs.
"""

import dataclasses
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import cast

from kdissect.files import ScratchDirectory
from kdissect.replay.disposition import SkipRequest
from kdissect.replay.effects import Coroutine, T
from kdissect.replay.engine.crash_recovery import (
    CrashJournal,
    crash_guard,
    recovered_outcome,
)
from kdissect.replay.engine.fast_path.prepared_requests import prepare_requests
from kdissect.replay.engine.pass_outcome import PassOutcome, outcome_of
from kdissect.replay.engine.pass_results import RequestResult
from kdissect.replay.engine.player import Player
from kdissect.replay.engine.schedule import Schedule
from kdissect.replay.engine.sharding import shard_requests, worker_settings
from kdissect.replay.engine.stop_signal import StopSignal
from kdissect.replay.engine.workers import run_workers
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.load.replay_input import ReplayInput, ReplayItem
from kdissect.replay.load.requests import Capture, read
from kdissect.replay.load.spool import Spool, SpoolSlot
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.net.transport import (
    NoTimedWork,
    TcpTransport,
    nonce,
    now_ns,
    play,
    wall_ns,
)
from kdissect.replay.rewrite.batch_rewrite import modern, rewritten
from kdissect.replay.safety import AbortRun, admission, refuse_source
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.cluster import TargetCluster
from kdissect.replay.target.discover import TargetDescription

COLLECT = (20_000, 20, 1 << 30)  # objects made, young collections, older ones
OLD_MESSAGE = bytes.fromhex("0000000000000000 0000000e b7bb0ed5 0000 ffffffff 00000000".replace(" ", ""))


@dataclass(slots=True)
class PlayedPass:
    """One pass over the capture: what came of it and when it began."""

    outcome: PassOutcome
    shelves: list[Spool]  # with the answers of each process
    start_ns: int  # on the run's clock
    start_wall_ns: int

    def answer(self, result: RequestResult, place: SpoolSlot) -> bytes:
        """Give one of the answers that a request got."""
        return self.shelves[result.shelf].get(place) or b""


Rescue = Callable[[int, PlayedPass], object]  # saves a pass: its number, and what is left of it


class Replay:
    """To be closed. Raises InputError for captures, Refusing for rails."""

    def __init__(
        self,
        settings: ReplaySettings,
        paths: Sequence[str],
        ports: Sequence[int] = (),
        keylog: str | None = None,
    ) -> None:
        self.settings = settings
        self.passes: list[PlayedPass] = []
        self.shelf = Spool()
        self._spool = ScratchDirectory()
        try:
            with collecting_little():
                self.capture: Capture = read(
                    paths,
                    ports,
                    str(self._spool.path),
                    self.shelf,
                    keylog,
                    settings.filter,
                    settings.topic_ids,
                )
                self.loaded: ReplayInput = load(self.capture, self.shelf, settings)
        except BaseException:
            self.close()
            raise
        source = self.loaded.source
        self.topology = TargetCluster(
            admission(settings, source), lambda address: refuse_source(address, source)
        )
        self.target = TargetDescription()
        self.board: ConnectionPool | None = None

    def close(self) -> None:
        """Remove temporary files."""
        for shelf in (self.shelf, *(shelf for played in self.passes for shelf in played.shelves)):
            shelf.close()
        self._spool.end()

    def context(self) -> ReplayContext:
        """Return the context of a new pass."""
        return new_context(self.settings, self.loaded, self.topology, now_ns, self.shelf.get)

    def learn(self) -> None:
        """Ask the target what it is. Raises Refusing where a rail holds."""
        self.target = self.errand(self.context().discovery.learn())

    def errand(self, errand: Coroutine[T]) -> T:
        """Run something on a connection of its own to its end, and give what it gives."""
        wire, board = self._board()
        outcome: list[tuple[T | None, Exception | None]] = []

        def done(value: T | None, failed: Exception | None) -> None:
            outcome.append((value, failed))

        for address in self.settings.target:
            self.topology.admit(address)
        play(
            board,
            wire,
            NoTimedWork(),
            lambda: board.run(errand, "control", done),
            lambda: bool(outcome) or board.failure is not None,
        )
        if board.failure is not None:
            raise board.failure
        value, failed = outcome[0]
        if isinstance(failed, SkipRequest):
            raise AbortRun(str(failed))
        if failed is not None:
            raise failed
        return cast("T", value)  # there is one, since nothing failed

    def play(self, told: Callable[[str], None] = lambda _text: None, rescue: Rescue | None = None) -> None:
        """Send it all, as often as was asked for. `rescue` saves a pass in which this process was killed, in another one."""
        for number in range(self.settings.loops):
            if self.settings.loops > 1:
                told(f"pass {number + 1} of {self.settings.loops}")
            self._pass(rescue)
            if self.passes[-1].outcome.stopped:
                return

    def _board(self) -> tuple[TcpTransport, ConnectionPool]:
        wire = TcpTransport(self.settings.tls)
        board = ConnectionPool(self.settings, self.topology, wire, nonce)
        self.board = board
        return wire, board

    def _pass(self, rescue: Rescue | None) -> None:
        context = self.context()
        if self.passes:  # another process may have learnt that leaders moved
            self.errand(context.leaders.learn_topics(sorted(self.topology.topics)))
        self.errand(context.discovery.learn_bounds())
        shares = shard_requests(self.loaded, self.settings)
        shelves = [self.shelf] if len(shares) == 1 else [Spool() for _ in shares]
        self.shelf.flush()
        word = StopSignal()
        journals = [CrashJournal() if rescue else None for _ in shares]
        acts = [
            partial(
                PassWorker,
                self,
                context,
                items,
                worker_settings(self.settings, number, shares),
                shelves[number],
                word,
                journals[number],
            )
            for number, items in enumerate(shares)
        ]
        start_wall_ns = 0

        def begin(lead_ns: int) -> int:
            nonlocal start_wall_ns
            start_wall_ns = wall_ns() + lead_ns
            return now_ns() + lead_ns

        def left() -> None:
            assert rescue is not None
            known = [each for each in journals if each is not None]
            begun_ns, begun_wall_ns, outcome = recovered_outcome(known, len(self.loaded.items))
            rescue(len(self.passes), PlayedPass(outcome, shelves, begun_ns, begun_wall_ns))

        warm_up()  # here and not in each process, which would finalise what is not its own
        try:
            with crash_guard(left, word) if rescue else nullcontext():
                if len(acts) == 1:
                    act = acts[0]()
                    start_ns = begin(act.lead_ns)
                    outcome = act.play(start_ns)
                else:
                    start_ns, outcome = run_workers(acts, word, begin)
        finally:
            gc.unfreeze()
            for journal in journals:
                if journal is not None:
                    journal.close()
        self.passes.append(PlayedPass(outcome, shelves, start_ns, start_wall_ns))


class PassWorker:
    """What one process plays of a pass; made ready when it is made."""

    def __init__(
        self,
        replay: Replay,
        context: ReplayContext,
        items: list[ReplayItem],
        settings: ReplaySettings,
        shelf: Spool,
        word: StopSignal,
        journal: CrashJournal | None = None,
    ) -> None:
        self._journal = journal
        context = dataclasses.replace(context, settings=settings)
        with collecting_little():
            ready = prepare_requests(context, items)
        self._finished: list[bool] = []
        self._wire = TcpTransport(settings.tls)
        self._board = ConnectionPool(settings, replay.topology, self._wire, nonce)
        self._first_ns = next(
            (item.request.first_ns for item in replay.loaded.items if item.refusal is None), 0
        )
        table = Schedule(settings.pace, settings.speed, self._first_ns, 0, int(settings.ramp_s * 1e9))
        self._player = Player(
            replay.loaded,
            context,
            self._board,
            table,
            shelf,
            lambda: self._finished.append(True),
            ready,
            items,
            word,
        )
        gc.freeze()

    @property
    def lead_ns(self) -> int:
        """How long before the first request it should be told to begin."""
        return self._player.lead_ns

    def play(self, begin_ns: int) -> PassOutcome:
        """Send it all, the first request at `begin_ns`."""
        player = self._player
        begin_wall_ns = begin_ns - now_ns() + wall_ns()
        player.context.clock.shift_ns = begin_wall_ns - self._first_ns
        with collecting_little():
            play(
                self._board,
                self._wire,
                _Playing(player, self._journal, begin_ns, begin_wall_ns),
                partial(player.start, begin_ns),
                lambda: bool(self._finished),
            )
        player.shelf.flush()
        return outcome_of(player)


@contextmanager
def collecting_little() -> Iterator[None]:
    """Have the collector look at young objects only: what is known of a capture stays, however often it is visited."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*COLLECT)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def warm_up() -> None:
    """Compile what is compiled at first use, and let the collector forget what is there to stay: neither on the clock."""
    rewritten(modern(OLD_MESSAGE), 0, 0, 0)
    gc.collect()
    gc.freeze()


class _Playing:
    """A player as the transport's work."""

    def __init__(
        self, player: Player, journal: CrashJournal | None, begin_ns: int, begin_wall_ns: int
    ) -> None:
        self._player, self._journal = player, journal
        self._begun = begin_ns, begin_wall_ns

    @property
    def next_ns(self) -> int | None:
        return self._player.next_ns

    def wake(self) -> None:
        self._player.wake()
        if self._journal is not None and self._player.board.now_ns >= self._journal.due_ns:
            self._journal.keep(self._player, *self._begun)

    def interrupt(self) -> None:
        self._player.stop("interrupted")
