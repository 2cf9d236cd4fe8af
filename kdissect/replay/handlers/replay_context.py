"""Context of all handlers of a pass: one frozen bundle of collaborators, each of which owns one subject.

The bundle lives as long as one pass over the captured requests. A second pass (`--loop`) gets a new one, and
with it new producer ids: the same batches under the same id would be acknowledged and not written. Only what
is known of the target (`cluster`) and what was loaded outlive a pass.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kdissect.replay.handlers.request_rewriter import RequestRewriter
from kdissect.replay.load.captured_fetch_sessions import CapturedFetchSessions
from kdissect.replay.load.decoded_cache import CapturedMessages
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.spool import SpoolSlot
from kdissect.replay.pass_state import PassNotes, ReadOrder, RequestGates, RunClock
from kdissect.replay.rewrite.names import Names
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.cluster import TargetCluster
from kdissect.replay.target.coordinators import Coordinators
from kdissect.replay.target.discover import Discovery
from kdissect.replay.target.fetch_sessions import FetchSessions
from kdissect.replay.target.leaders import Leaders
from kdissect.replay.target.members import Members
from kdissect.replay.target.offsets import GroupCommits, Positions
from kdissect.replay.target.producers import Producers, Transactions
from kdissect.replay.target.share_sessions import ShareMembers


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """The collaborators of all handlers. `new_context` makes one."""

    settings: ReplaySettings
    loaded: ReplayInput  # what is known of the capture
    captured: CapturedMessages  # requests and responses as captured
    cluster: TargetCluster  # nodes, leaders and versions of the target
    names: Names
    clock: RunClock
    gates: RequestGates
    order: ReadOrder
    notes: PassNotes
    rewriter: RequestRewriter
    leaders: Leaders
    coordinators: Coordinators
    discovery: Discovery
    producers: Producers
    transactions: Transactions
    positions: Positions
    commits: GroupCommits
    fetches: FetchSessions
    members: Members
    shares: ShareMembers


def new_context(
    settings: ReplaySettings,
    loaded: ReplayInput,
    cluster: TargetCluster,
    now_ns: Callable[[], int],
    frame: Callable[[SpoolSlot | None], bytes | None],
) -> ReplayContext:
    """Return the bundle of a new pass.

    `now_ns` is the time of the run, `frame` reads captured frames from the spool.
    """
    names, clock, gates, notes = loaded.names, RunClock(now_ns), RequestGates(), PassNotes()
    captured = CapturedMessages(loaded.bodies, frame)
    positions = Positions(settings.offsets, loaded.starts)
    deadline_s = settings.dependency_deadline_s
    leaders = Leaders(cluster, names, clock, notes, deadline_s)
    return ReplayContext(
        settings=settings,
        loaded=loaded,
        captured=captured,
        cluster=cluster,
        names=names,
        clock=clock,
        gates=gates,
        order=ReadOrder(loaded.reads, loaded.shares, gates),
        notes=notes,
        rewriter=RequestRewriter(settings, cluster, names, notes),
        leaders=leaders,
        coordinators=Coordinators(cluster, clock, notes, deadline_s),
        discovery=Discovery(settings, loaded.source, cluster, names, clock, leaders, positions),
        producers=Producers(loaded.attempts()),
        transactions=Transactions(loaded.items, loaded.transactions, gates),
        positions=positions,
        commits=GroupCommits(),
        fetches=FetchSessions(CapturedFetchSessions(names, loaded.older_sessions)),
        members=Members(),
        shares=ShareMembers(),
    )
