"""A run by several machines, on the driver: from the first worker to the files of each pass.

The driver has loaded the log, knows the target and deals connections out (`engine.components`). When all
workers are ready, it names a moment a little ahead on its own clock, which each worker knows on its own. The
files of a pass appear under their name when all workers have written theirs: `run.json` with the sums and
the workers, and a directory for each worker with its requests. For a worker that was lost, the driver writes
down what it knows.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kdissect.errors import OutputError
from kdissect.files import UnfinishedOutput
from kdissect.replay.engine.pass_results import PassOutcome, merge_outcomes
from kdissect.replay.engine.run import PlayedPass, Replay, ended_as_by_ctrl_c
from kdissect.replay.engine.sharding import (
    Component,
    ShardSize,
    components_of,
    deal,
    pack,
    part_settings,
    shard_size,
)
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.machines.channel import ChannelMessage
from kdissect.replay.machines.progress_feed import PartLedger
from kdissect.replay.machines.remote_workers import RemoteWorker, RemoteWorkers
from kdissect.replay.machines.run_messages import (
    MessageKind,
    Orders,
    PassOrders,
    PlayedFacts,
    ReadyFacts,
    log_digest,
    worker_folder,
)
from kdissect.replay.net.transport import now_ns, wall_ns
from kdissect.replay.results.pass_rate import SendingTime, WorkerRate
from kdissect.replay.results.run_files import run_summary, write_lines, write_summary
from kdissect.replay.settings import ReplaySettings

HEAD_START_NS = 500_000_000  # for the message that names the moment to start
NEVER = 1 << 62


def worker_count(replay: Replay, wanted: int) -> int:
    """Return how many workers are worth it: no more than components, or than connections that are allowed."""
    components = len(components_of(replay.loaded))
    return max(min(wanted, components, replay.settings.caps.connections or wanted), 1)


@dataclass(frozen=True, slots=True)
class _Deal:
    """Who sends what."""

    owners: dict[int, int]  # connection -> worker
    items: Sequence[Sequence[ReplayItem]]  # of each worker; the first one also has what is never sent
    sizes: list[ShardSize]

    @classmethod
    def of(cls, replay: Replay, components: Sequence[Component], count: int) -> "_Deal":
        owners = pack(components, count)
        items = deal(replay.loaded.items, owners, count)
        return cls(owners, items, [shard_size(part) for part in items])


@dataclass(frozen=True, slots=True)
class _Sent:
    """Reports of the workers about a pass, by number."""

    start_ns: int  # on the driver's clock
    start_wall_ns: int
    ready: dict[int, ReadyFacts]
    played: dict[int, ChannelMessage]  # without those that were lost


class MachinesRun:
    """All passes of a run."""

    def __init__(
        self, replay: Replay, log: Path, remote: RemoteWorkers, notice: Callable[[str], None]
    ) -> None:
        """`replay` is loaded from `log`, and its target is known; `remote_workers` has been gathered."""
        self._replay, self._log, self._remote, self._notice = replay, log.absolute(), remote, notice
        self._deal = _Deal.of(replay, components_of(replay.loaded), remote.count)

    def play(self, folder: Path, plan: dict[str, Any]) -> list[Path]:
        """Send all passes. Return their directories. Raise UserError for what a worker lacks."""
        places = []

        def play_pass(number: int) -> None:
            place = folder if number == 0 else folder.with_name(f"{folder.name}-{number + 1}")
            self._play_pass(number, place, plan)
            places.append(place)

        self._each_pass(play_pass)
        return places

    def play_into_memory(self) -> list[list[WorkerRate]]:
        """Send all passes to targets in memory, one for each worker. Return how fast each worker sent."""
        rates = []

        def play_pass(number: int) -> None:
            sent = self._send(number, None)
            rates.append([self._rate(worker, sent) for worker in _in_order(self._remote)])
            self._remote.sending = False

        self._each_pass(play_pass)
        return rates

    def _each_pass(self, play_pass: Callable[[int], None]) -> None:
        """Have all passes played, as far as no worker is lost and nothing stops the run."""
        self._brief()
        with ended_as_by_ctrl_c():
            for number in range(self._replay.settings.loops):
                if self._replay.settings.loops > 1:
                    self._notice(f"pass {number + 1} of {self._replay.settings.loops}")
                play_pass(number)
                if self._remote.stopped or self._remote.lost():
                    break

    def _brief(self) -> None:
        """Have all workers load the log."""
        settings = self._replay.settings
        tls = settings.tls
        orders = Orders(
            log=str(self._log),
            digest=log_digest(self._log),
            settings=settings,
            cluster_id=self._replay.target.cluster_id,
            authority=Path(tls.authority).read_bytes() if tls and tls.authority else None,
            certificate=Path(tls.certificate).read_bytes() if tls and tls.certificate else None,
        )
        body = pickle.dumps(orders)
        self._notice(f"{self._remote.count} workers load the log: {_hosts(self._remote)}")
        self._remote.tell(MessageKind.ORDERS, lambda _worker: body)
        self._remote.expect(MessageKind.LOADED)

    def _play_pass(self, number: int, place: Path, plan: dict[str, Any]) -> None:
        if place.exists():
            raise OutputError(f"{place} already exists; files of a run are never overwritten")
        remote, place = self._remote, place.absolute()
        with UnfinishedOutput(place) as unfinished:
            out = unfinished.directory(mode=0o700)
            sent = self._send(number, out)
            stopped = remote.stopped  # Ctrl-C while files are written changes nothing
            remote.tell(MessageKind.WRITE)
            written = remote.expect(MessageKind.WRITTEN)
            self._write_lost(out, written)
            outcome = self._outcome(sent, stopped)
            summary = run_summary(
                self._replay, PlayedPass(outcome, [], sent.start_ns, sent.start_wall_ns), plan
            )
            workers = [self._worker_facts(worker, sent) for worker in _in_order(remote)]
            summary |= {"processes": remote.count, "workers": workers}
            write_summary(out, summary)
            unfinished.move()
        remote.sending = False

    def _send(self, number: int, out: Path | None) -> _Sent:
        """Have all workers send a pass; they write to a directory later, if there is one."""
        remote = self._remote
        for worker in remote.workers.values():
            worker.ledger = PartLedger(self._deal.items[worker.number])
        wall_shift_ns = wall_ns() - now_ns()
        remote.tell(MessageKind.PASS, lambda worker: self._orders(worker, number, out, wall_shift_ns))
        ready = {
            each: ReadyFacts.of(message.values) for each, message in remote.expect(MessageKind.READY).items()
        }
        start_ns = now_ns() + max(facts.lead_ns for facts in ready.values()) + HEAD_START_NS
        start_wall_ns = start_ns + wall_shift_ns
        remote.sending = True
        remote.tell(MessageKind.START, start_ns=start_ns, start_wall_ns=start_wall_ns)
        return _Sent(start_ns, start_wall_ns, ready, remote.expect(MessageKind.PLAYED))

    def _orders(self, worker: RemoteWorker, number: int, out: Path | None, wall_shift_ns: int) -> bytes:
        settings, place = self._settings(worker.number), "" if out is None else str(out)
        return pickle.dumps(PassOrders(number, self._deal.owners, settings, place, wall_shift_ns))

    def _settings(self, number: int) -> ReplaySettings:
        """Return the settings of a worker: its part of the limits. The driver judges shares of errors."""
        settings = part_settings(self._replay.settings, number, self._deal.sizes)
        return replace(settings, breaker=replace(settings.breaker, least_answers=NEVER))

    def _write_lost(self, out: Path, written: dict[int, ChannelMessage]) -> None:
        """Write down what is known of the requests of workers that have not done so."""
        for worker in self._remote.lost():
            if worker.number not in written:
                # It may have died while it wrote: what it has moved into place is complete, all else is not.
                place = out / worker_folder(worker.number)
                if not place.exists():
                    write_lines(place, worker.ledger.lines(worker.lost))

    def _outcome(self, sent: _Sent, stopped: str) -> PassOutcome:
        """Return the sums over all workers that have told theirs."""
        outcomes: list[PassOutcome] = [
            pickle.loads(sent.played[number].body)  # noqa: S301 - of a worker that knew the token
            for number in sorted(sent.played)
        ]
        merged = merge_outcomes(outcomes)
        merged.stopped = stopped or "; ".join(worker.lost for worker in self._remote.lost())
        return merged

    def _rate(self, worker: RemoteWorker, sent: _Sent) -> WorkerRate:
        """Return how fast a worker sent, on the driver's clock."""
        sending, played = SendingTime(), sent.played.get(worker.number)
        if played is not None:
            end = PlayedFacts.of(played.values)
            on_worker = SendingTime(end.sent, end.first_sent_ns, end.last_sent_ns)
            sending = on_worker.moved(-end.offset_ns)
        return WorkerRate(worker.name, worker.lost, sending)

    def _worker_facts(self, worker: RemoteWorker, sent: _Sent) -> dict[str, Any]:
        """Return what the files of the run say of a worker; times are ms."""
        number, size = worker.number, self._deal.sizes[worker.number]
        ready, played = sent.ready, sent.played
        facts: dict[str, Any] = {
            "number": number,
            "host": worker.host,
            "process": worker.process,
            "requests": size.requests,
            "bytes": size.size,
            "connections": sum(owner == number for owner in self._deal.owners.values()),
            "ended": len(worker.ledger),
            "lost": worker.lost,
            "clock_offset_ms": ready[number].wall_offset_ns / 1e6,
            "clock_error_ms": ready[number].error_ns / 1e6,
            "start_ms": None,
            "drift_ms": None,
        }
        if number in played:
            end = PlayedFacts.of(played[number].values)
            drift_ns = end.offset_ns - ready[number].offset_ns
            facts |= {"start_ms": (end.first_late_ns - drift_ns) / 1e6, "drift_ms": drift_ns / 1e6}
        return facts


def _in_order(remote: RemoteWorkers) -> list[RemoteWorker]:
    return [remote.workers[number] for number in sorted(remote.workers)]


def _hosts(remote: RemoteWorkers) -> str:
    return ", ".join(sorted({worker.host for worker in remote.workers.values()}))
