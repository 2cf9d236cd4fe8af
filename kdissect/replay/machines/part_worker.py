"""A worker: it loads the replay log, and sends its part of each pass by the `PassWorker` of one process.

All that keeps a run safe on one machine is checked here again, with the eyes of this machine: the captured
cluster and its addresses, the hosts that are allowed, the id of the target. A worker without the log, or with
another one, says so in one sentence and sends nothing.
"""

import gc
import os
import pickle
import socket
import tempfile
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

from kdissect.errors import UserError
from kdissect.replay.engine.pass_results import PassOutcome, ResultTable
from kdissect.replay.engine.pass_worker import PassWorker, WorkerSetup, warm_up
from kdissect.replay.engine.run import PlayedPass, Replay
from kdissect.replay.engine.sharding import deal
from kdissect.replay.load.log_files import open_log
from kdissect.replay.machines.channel import ChannelClosed, Invitation, connect, nameless_file
from kdissect.replay.machines.clock_offset import ClockOffset
from kdissect.replay.machines.progress_feed import ProgressFeed
from kdissect.replay.machines.run_messages import (
    MessageKind,
    Orders,
    PassOrders,
    PlayedFacts,
    ReadyFacts,
    log_digest,
    worker_folder,
)
from kdissect.replay.machines.worker_link import DriverGone, DriverLink
from kdissect.replay.net.transport import now_ns, wall_ns
from kdissect.replay.pass_state import RequestValues
from kdissect.replay.results.pass_rate import sending_time
from kdissect.replay.results.run_files import pair_lines, run_summary, write_run
from kdissect.replay.safety import AbortRun
from kdissect.replay.settings import ReplaySettings
from kdissect.text import format_address

FIRST_RESULTS = 1000  # among which the first request that was sent is searched for


class DriverUnreachable(Exception):
    """A worker has no way to the driver of the run."""


def send_part(number: int, invitation: Invitation) -> None:
    """Be the worker of this number. Raise DriverUnreachable if it cannot tell anybody."""
    try:
        channel = connect(invitation)
    except ChannelClosed as error:
        driver = format_address(invitation.host, invitation.port)
        raise DriverUnreachable(
            f"{socket.gethostname()} cannot reach the driver of the run at {driver}: {error}"
        ) from None
    link = DriverLink(channel)
    try:
        link.send(MessageKind.JOINED, number=number, host=socket.gethostname(), process=os.getpid())
        _work(number, link)
    except DriverGone:
        pass  # nothing is sent any more, and nobody waits for it
    except UserError as error:
        link.send(MessageKind.FAILED, reason=str(error), by_user=True)
    except Exception as error:  # noqa: BLE001 - the driver reports it
        link.send(MessageKind.FAILED, reason=f"{type(error).__name__}: {error}", by_user=False)
    finally:
        link.close()


def _work(number: int, link: DriverLink) -> None:
    orders: Orders = pickle.loads(link.wait(MessageKind.ORDERS).body)  # noqa: S301 - from the driver
    check_log(orders)
    with ExitStack() as stack:
        settings = with_own_files(orders, stack)
        replay = stack.enter_context(closing(Replay(settings, [orders.log])))
        replay.learn()
        if replay.target.cluster_id != orders.cluster_id:
            raise AbortRun(
                f"--target leads to another cluster there: {replay.target.cluster_id}, "
                f"not {orders.cluster_id}"
            )
        warm_up()
        link.send(MessageKind.LOADED)
        while (message := link.wait(MessageKind.PASS, MessageKind.END)).kind == MessageKind.PASS:
            part: PassOrders = pickle.loads(message.body)  # noqa: S301 - as above
            _Pass(number, link, replay, part, settings).play()


def check_log(orders: Orders) -> None:
    """Raise UserError unless the log of the driver can be read here, with its captures."""
    try:
        open_log(Path(orders.log))
        reason = "" if log_digest(Path(orders.log)) == orders.digest else "another log is there"
    except OSError as error:
        reason = _reason(error)
    except UserError as error:
        reason = str(error)
    if reason:
        raise UserError(
            f"{orders.log} cannot be used there ({reason}): with --master a replay log and its captures must "
            "lie where every executor can read them, under the same path"
        )


def check_writable(out: str) -> None:
    """Raise UserError unless the directory of the run can be written here."""
    try:
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UserError(
            f"the directory of --out cannot be written there ({_reason(error)}): with --master it must lie "
            "where every executor can write, under the same path"
        ) from None


def with_own_files(orders: Orders, stack: ExitStack) -> ReplaySettings:
    """Return the settings with the files that TLS needs, as long as the stack is open."""
    tls = orders.settings.tls
    if tls is None:
        return orders.settings
    if orders.authority is not None:
        tls = replace(tls, authority=stack.enter_context(nameless_file(orders.authority)))
    if orders.certificate is not None:
        tls = replace(tls, certificate=stack.enter_context(nameless_file(orders.certificate)))
    return replace(orders.settings, tls=tls)


class _Pass:
    """One pass of one worker."""

    def __init__(
        self, number: int, link: DriverLink, replay: Replay, orders: PassOrders, settings: ReplaySettings
    ) -> None:
        self._number, self._link, self._replay, self._orders = number, link, replay, orders
        self._settings = replace(orders.settings, tls=settings.tls)
        self._folder = Path(orders.out) / worker_folder(number) if orders.out else None

    def play(self) -> None:
        """Send, tell what came of it, and write it down."""
        link, feed = self._link, ProgressFeed(self._link)
        if self._folder is not None:
            check_writable(self._orders.out)
        worker = self._worker(feed, link.clock_offset())
        clock = link.clock_offset()  # again, since preparing takes time
        now = now_ns()
        wall_offset = wall_ns() - (clock.on_driver(now) + self._orders.wall_shift_ns)
        ready = ReadyFacts(worker.lead_ns, clock.offset_ns, clock.error_ns, wall_offset)
        link.send(MessageKind.READY, **ready.values())
        start = link.wait(MessageKind.START).values
        start_ns = clock.on_worker(start["start_ns"])
        try:
            outcome = worker.play(start_ns)
        finally:
            gc.unfreeze()
        feed.end(outcome.results)
        later = link.clock_offset()
        sent = sending_time(outcome.results)
        facts = PlayedFacts(_first_late_ns(outcome), later.offset_ns, later.error_ns, *sent)
        link.send(MessageKind.PLAYED, pickle.dumps(without_requests(outcome)), **facts.values())
        if self._folder is None:
            return
        link.wait(MessageKind.WRITE)
        played = PlayedPass(outcome, [self._replay.spool], start_ns, start["start_wall_ns"])
        write_run(self._folder, run_summary(self._replay, played, {}), pair_lines(self._replay, played))
        link.send(MessageKind.WRITTEN)

    def _worker(self, feed: ProgressFeed, clock: ClockOffset) -> PassWorker:
        replay, orders = self._replay, self._orders
        context = replay.context()
        if orders.number:  # others may have learnt that leaders moved
            replay.run_alone(context.leaders.learn_topics(sorted(replay.cluster.topics)))
        replay.run_alone(context.discovery.learn_bounds())
        count = max(orders.owners.values(), default=0) + 1
        items = deal(replay.loaded.items, orders.owners, max(count, self._number + 1))[self._number]
        replay.spool.flush()
        return PassWorker(
            WorkerSetup(
                replay_input=replay.loaded,
                context=context,
                items=items,
                settings=self._settings,
                spool=replay.spool,
                stop_signal=self._link.stop_signal,
                journal=feed,
                out=self._folder,
                wall_shift_ns=orders.wall_shift_ns - clock.offset_ns,
            )
        )


def without_requests(outcome: PassOutcome) -> PassOutcome:
    """Return an outcome without what it has for each request."""
    return replace(outcome, results=ResultTable(), notes=RequestValues(), produced=RequestValues())


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _first_late_ns(outcome: PassOutcome) -> int:
    """Return how much later than due the first request was sent."""
    first = list(islice(outcome.results, FIRST_RESULTS))
    sent = [
        (each.sent_ns, each.due_ns) for each in first if each.sent_ns is not None and each.due_ns is not None
    ]
    if not sent:
        return 0
    return min(sent_ns for sent_ns, _ in sent) - min(due_ns for _, due_ns in sent)
