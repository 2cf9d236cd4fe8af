"""A replay from its beginning to its end: load the capture, ask the target, plan, send pass by pass.

In: the settings and the capture files. Out: a `PlayedPass` for each pass, from which the files of the run are
made. The parts do not know each other; they are put together here, once for plans and runs, and in
`pass_worker` for each process.
"""

import dataclasses
import gc
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kdissect.errors import UsageError
from kdissect.files import ScratchDirectory
from kdissect.memory import release_memory
from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, OFFSET_COMMITS, ApiKey
from kdissect.replay.effects import Coroutine, T
from kdissect.replay.engine.crash_recovery import CrashJournal, crash_guard, recovered_pass
from kdissect.replay.engine.pass_results import PassOutcome, RequestResult, ResultTable, merge_outcomes
from kdissect.replay.engine.pass_worker import PassWorker, WorkerSetup, collect_little, warm_up
from kdissect.replay.engine.run_limits import StopSignal
from kdissect.replay.engine.sharding import components_of, shard_requests, worker_settings
from kdissect.replay.engine.standalone import run_standalone
from kdissect.replay.engine.workers import run_workers
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.load.log_files import is_log
from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.requests import Capture, read
from kdissect.replay.load.spool import Spool, SpoolSlot
from kdissect.replay.net.resolver import is_own, resolve_all
from kdissect.replay.net.transport import now_ns, wall_ns
from kdissect.replay.safety import Admission, captured_hosts
from kdissect.replay.settings import Groups, ReplaySettings
from kdissect.replay.target.cluster import TargetCluster
from kdissect.replay.target.discover import TargetDescription


@dataclass(slots=True)
class PlayedPass:
    """One pass over the capture: what came of it and when it began."""

    outcome: PassOutcome
    spools: list[Spool]  # with the responses that each process got
    start_ns: int  # on the clock of the run
    start_wall_ns: int  # since the epoch

    def answer(self, result: RequestResult, slot: SpoolSlot) -> bytes:
        """Return one of the responses to a request."""
        return self.spools[result.spool].get(slot) or b""


JOINS = EPOCH_HEARTBEATS | {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT}
"""Requests that only members of a group send."""

SavePass = Callable[[int, PlayedPass], object]
"""Saves a pass by its number."""


class Replay:
    """A capture and its target, to be closed.

    Raise InputError for what is not a capture, AbortRun where safety rules forbid.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        paths: Sequence[str],
        ports: Sequence[int] = (),
        keylog: str | None = None,
        progress: Callable[[int], None] = lambda _requests: None,
        looked: Callable[[int, int], None] = lambda _done, _requests: None,
    ) -> None:
        """Load the captures.

        `progress` is called with the number of requests that are loaded, then `looked` with the number of
        those that were looked at and of all.
        """
        self.settings = settings
        self.passes: list[PlayedPass] = []
        self.spool = Spool()  # captured frames, and the responses if one process sends
        self._scratch = ScratchDirectory()  # unpacked captures
        try:
            with collect_little():
                self.capture = self._read(paths, ports, keylog, progress)
                self.settings = settings = with_groups(settings, self.capture)
                release_memory()  # columns that were read in parts
                self.loaded: ReplayInput = load(self.capture, self.spool, settings, looked)
                release_memory()  # facts that nobody needs any more
        except BaseException:
            self.close()
            raise
        source = self.loaded.source
        if settings.dry_partitions:
            most = max((topic.partitions for topic in source.topics.values()), default=0)
            self.settings = settings = dataclasses.replace(settings, dry_partitions=max(most, 1))
        resolved = resolve_all(captured_hosts(source))
        self.cluster = TargetCluster(Admission(settings, source, resolved, is_own))
        self.target = TargetDescription()

    def _read(
        self, paths: Sequence[str], ports: Sequence[int], keylog: str | None, progress: Callable[[int], None]
    ) -> Capture:
        """Return the requests of captures, or of one replay log."""
        wanted, names = self.settings.filter, self.settings.topic_ids
        logs = [path for path in paths if is_log(path)]
        if not logs:
            scratch = str(self._scratch.path)
            return read(paths, ports, scratch, self.spool, keylog, wanted, names, progress)
        if len(paths) > 1 or ports or keylog:
            raise UsageError(f"{logs[0]} is a replay log, which takes no other captures, --port or --keylog")
        return read_log(Path(logs[0]), self.spool, wanted, names, progress)

    def close(self) -> None:
        """Remove temporary files."""
        for spool in (self.spool, *(spool for played in self.passes for spool in played.spools)):
            spool.close()
        self._scratch.end()

    def context(self) -> ReplayContext:
        """Return the context of a new pass."""
        return new_context(self.settings, self.loaded, self.cluster, now_ns, self.spool.get)

    def learn(self) -> None:
        """Ask the target what it is. Raise AbortRun where safety rules forbid to go on."""
        self.target = self.run_alone(self.context().discovery.learn())

    def run_alone(self, coroutine: Coroutine[T]) -> T:
        """Run a coroutine to its end, on connections of its own, and return its result.

        Raise AbortRun or HandshakeFailed if the target cannot be asked, or the request cannot be sent.
        """
        return run_standalone(self.settings, self.cluster, coroutine)

    def play(
        self,
        notice: Callable[[str], None] = lambda _text: None,
        save: SavePass | None = None,
        out: Path | None = None,
    ) -> None:
        """Send the traffic, pass by pass.

        `save` keeps what was sent of a pass in which the replayer dies or fails. A pass ends when nothing
        more can be written to the directory `out`.
        """
        for number in range(self.settings.loops):
            if self.settings.loops > 1:
                notice(f"pass {number + 1} of {self.settings.loops}")
            self.passes.append(self._play_pass(save, out))
            if self.passes[-1].outcome.stopped:
                return

    def _play_pass(self, save: SavePass | None, out: Path | None) -> PlayedPass:
        context = self.context()
        if self.passes:  # another process may have learnt that leaders moved
            self.run_alone(context.leaders.learn_topics(sorted(self.cluster.topics)))
        self.run_alone(context.discovery.learn_bounds())
        shards = shard_requests(self.loaded, self.settings, components_of(self.loaded))
        spools = [self.spool] if len(shards) == 1 else [Spool() for _ in shards]
        tables = [ResultTable(shared=len(shards) > 1) for _ in shards]
        self.spool.flush()
        stop_signal = StopSignal()
        journals = [CrashJournal() for _ in shards] if save is not None else []
        makers = [
            partial(
                PassWorker,
                WorkerSetup(
                    replay_input=self.loaded,
                    context=context,
                    items=items,
                    settings=worker_settings(self.settings, number, shards),
                    spool=spools[number],
                    results=tables[number],
                    stop_signal=stop_signal,
                    journal=journals[number] if journals else None,
                    out=out,
                ),
            )
            for number, items in enumerate(shards)
        ]

        def save_rest(reason: str) -> None:
            """Save what the journals tell of a pass that was not finished."""
            if save is not None:
                start_ns, start_wall_ns, outcome = recovered_pass(journals, len(self.loaded.items), reason)
                self.loaded.names.target_names |= outcome.topic_names
                save(len(self.passes), PlayedPass(outcome, spools, start_ns, start_wall_ns))

        warm_up()  # here and not in each process, which would finalise what is not its own
        try:
            with (
                crash_guard(save_rest, stop_signal) if save is not None else nullcontext(),
                ended_as_by_ctrl_c(),
            ):
                played = _send(makers, stop_signal, spools, tables)
        except Exception as error:
            save_rest(f"the replayer failed: {type(error).__name__}: {error}")
            raise
        finally:
            gc.unfreeze()
            for journal in journals:
                journal.close()
        self.loaded.names.target_names |= played.outcome.topic_names  # which other processes learnt
        return played


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """Have SIGTERM end a pass in order: what is in flight is awaited, and the report is written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def with_groups(settings: ReplaySettings, capture: Capture) -> ReplaySettings:
    """Return the settings with the groups that a capture needs, if they are left open (`Groups.AUTO`)."""
    if settings.groups is not Groups.AUTO:
        return settings
    keys = capture.selected_keys()
    groups = Groups.FULL if keys & JOINS else Groups.SIMPLE if keys & OFFSET_COMMITS else Groups.OFF
    return dataclasses.replace(settings, groups=groups, groups_chosen=True)


def _send(
    makers: Sequence[Callable[[], PassWorker]],
    stop_signal: StopSignal,
    spools: list[Spool],
    tables: Sequence[ResultTable],
) -> PlayedPass:
    """Send a pass, in this process or in one for each worker, which puts its results into its table."""
    start_wall_ns = 0

    def begin(lead_ns: int) -> int:
        """Return when to begin: after the time that the slowest worker needs."""
        nonlocal start_wall_ns
        start_wall_ns = wall_ns() + lead_ns
        return now_ns() + lead_ns

    if len(makers) == 1:
        worker = makers[0]()
        start_ns = begin(worker.lead_ns)
        outcome = worker.play(start_ns)
    else:
        start_ns, outcomes = run_workers(makers, stop_signal, begin)
        for table, each in zip(tables, outcomes, strict=True):
            table.take_over(each.results)
            each.results = table
        outcome = merge_outcomes(outcomes)
    return PlayedPass(outcome, spools, start_ns, start_wall_ns)
