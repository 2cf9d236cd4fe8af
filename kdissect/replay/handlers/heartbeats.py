"""Groups whose members only send heartbeats: KIP-848, and share groups (KIP-932).

A heartbeat carries the member's epoch and partitions as the target told them last. A member that the target
put out joins again with all fields of its first heartbeat; one that is older than the capture joins first
(see `prior_member_joins`). One that joins in the capture and is in already, since the target took an earlier
attempt, says all fields and stays: Kafka 3.9 fences a member that it knows and that begins at epoch 0.

A coordinator assigns partitions to a member of a share group when it has written their state, some time after
the member has joined. If the captured member was assigned partitions by now, one on the target sends
heartbeats until it is.
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Answer, Coroutine, pause
from kdissect.replay.handlers.prior_member_joins import member_of
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import AGAIN_NS, STATE_PAUSES, send_to_coordinator, until_group_allows
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.target.members import JOINING, LiveMember, own_member_id

UNCHANGED_MS = -1  # the rebalance timeout of a heartbeat that says nothing of it
NAMED_BY_CLIENT = 1  # ConsumerGroupHeartbeat from which members choose their ids (KIP-1082)


def heartbeat(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Heartbeat as the live member."""
    yield from until_group_allows(context, item)
    key = item.request.key
    version = context.rewriter.version(item)
    group, captured = body["group_id"], body["member_id"]
    response = context.captured.response(item.request)
    live = context.members.live(group, captured)
    if live is None and body["member_epoch"] == JOINING:
        named = captured and version >= NAMED_BY_CLIENT
        own = own_member_id(context.settings.run, group, captured) if named else ""
        live = LiveMember(group, own, joins_by=key)
    elif live is None or live.rejoining is not None:
        live = yield from member_of(context, group, captured)
    if live.joins_by != key:
        raise SkipRequest(Disposition.DEPENDENCY, "a member of another kind of group has its id")
    live.connection = item.request.connection
    owned = body.get("topic_partitions")
    entering = body["member_epoch"] == JOINING
    joining = body["member_epoch"] >= JOINING and live.generation <= JOINING
    if "topic_partitions" in body:
        body["topic_partitions"] = None
    body = context.rewriter.rewrite(item, body, version)
    if joining or entering:
        body = _with_all_fields(live, body)
    if not joining and body["member_epoch"] >= JOINING:
        body["member_epoch"] = live.generation
    if "topic_partitions" in body or (joining and owned is not None):
        body["topic_partitions"] = [] if joining else live.owned if owned is not None else None
    body["member_id"] = live.member_id
    answer = yield from send_to_coordinator(context, item, version, body)
    live.take_heartbeat_response(answer.body)
    if key == ApiKey.SHARE_GROUP_HEARTBEAT and (response.get("assignment") or NOTHING)["topic_partitions"]:
        answer = yield from _until_assigned(context, live, answer)
    context.members.learn(live, captured, response.get("member_id"))
    if body["member_epoch"] < 0 and key != ApiKey.SHARE_GROUP_HEARTBEAT:
        context.members.forget(group, captured)  # what a share member holds may be acknowledged later
    return [answer]


NOTHING: Tree = {"topic_partitions": ()}  # an assignment


def _until_assigned(context: ReplayContext, live: LiveMember, answer: Answer) -> Coroutine[Answer]:
    """Send heartbeats until a member is assigned partitions, or refused. Return the last answer."""
    part = answer.part
    for _ in range(STATE_PAUSES):
        if live.owned or not live.is_in or answer.errors or not answer.body:
            break
        context.notes.counts["heartbeats sent again until partitions are assigned"] += 1
        yield from pause(AGAIN_NS)
        unchanged: Tree = {"rack_id": None, "subscribed_topic_names": None}
        body = part.body | unchanged | {"member_epoch": live.generation}
        answer = yield from context.coordinators.ask(part.key, part.version, body, part.client_id)
        live.take_heartbeat_response(answer.body)
    return answer


def _with_all_fields(live: LiveMember, body: Tree) -> Tree:
    """Return a heartbeat that joins: with all fields that this one or the last join has."""
    present = {name: value for name, value in body.items() if value is not None}
    if present.get("rebalance_timeout_ms") == UNCHANGED_MS:
        del present["rebalance_timeout_ms"]
    live.join = {**body, **live.join, **present, "member_epoch": JOINING}
    return dict(live.join)
