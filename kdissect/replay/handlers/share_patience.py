"""How long a fetch of a share group waits: in the replayer, and at the leaders of the target.

In: a captured fetch whose turn has come, and what its captured response handed out. Out: when it is sent, and
how long each leader may wait for records.

- At `asap` and `think` a fetch is sent when the records that its response handed out are written.
- Two captured sessions of a member are one on a node that leads the partitions of both. A broker answers the
  requests of a connection one after the other, so a long poll would wait for the one before it, and take
  twice as long as in the capture. A request is sent when the last one of its session has been answered, and
  waits at the leader for the rest of its time.
- At `asap` a fetch hardly waits if its captured response was empty, or if the group has had as many records
  as in the capture. At `think` the latter waits no longer than the captured broker took.
- A leader that is told partitions for the first time has the whole time, to find out where the group begins
  to read.
"""

from collections.abc import Callable, Collection

from kdissect.protocol.codec.messages import CodecError
from kdissect.replay.disposition import SkipRequest
from kdissect.replay.effects import Coroutine, Gate, T, until
from kdissect.replay.handlers.fetch_patience import SHORTEST_MS, shared_wait_ms
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import until_order_allows
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.settings import Pace
from kdissect.replay.target.share_sessions import OwnShareSession

NS_PER_MS = 1_000_000


def until_written(context: ReplayContext, item: ReplayItem) -> Coroutine[None]:
    """Wait until what the captured response handed out is written; at `schedule` a fetch has its time."""
    if context.settings.pace is not Pace.SCHEDULE:
        yield from until_order_allows(context, lambda: context.order.missing_of_shared(item.request.index))


def wait_ms_for_records(context: ReplayContext, item: ReplayItem, group: str, wait_ms: int) -> int:
    """Return how long leaders may wait that know what the session is about, and count what is wanted."""
    acquired = context.loaded.shares.acquired(item.request.index)
    supply, wants_more = context.shares.supply(group), False
    for (topic, number), each in acquired.items():
        partition = context.names.topic(topic), number
        supply.captured[partition] += each.records
        wants_more |= supply.handed_out[partition] < supply.captured[partition]
    pace = context.settings.pace
    if wants_more or pace is Pace.SCHEDULE:
        return wait_ms
    if pace is Pace.ASAP:
        return min(SHORTEST_MS, wait_ms)
    return shared_wait_ms(context, item, wait_ms) if acquired else wait_ms


def until_turn(context: ReplayContext, sessions: Callable[[], Collection[OwnShareSession]]) -> Coroutine[int]:
    """Wait until the last requests of sessions have been answered. Return how long that took, in ms."""
    begin_ns = context.clock.now_ns()
    while gate := next((each.turn for each in sessions() if each.turn and not each.turn.opened), None):
        if not (yield from until(gate)):
            break
    return (context.clock.now_ns() - begin_ns) // NS_PER_MS


def in_turn(sessions: Collection[OwnShareSession], asking: Coroutine[T]) -> Coroutine[T]:
    """Ask, and let the next requests of sessions wait for the answers."""
    gate = Gate()
    for session in sessions:
        session.turn = gate
    try:
        answers = yield from asking
    except (SkipRequest, CodecError):
        gate.open()
        raise
    gate.open()
    return answers
