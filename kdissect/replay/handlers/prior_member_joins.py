"""Members that are older than the capture join before they go on: with joins that it does not have.

Members of one group come in together, each on its own connection, as they have long done in the capture: one
after another, each would wait for those who are in to notice it. This lies beside the handlers, and not in
`target`, since handlers wait for it and it rejoins as they do.
"""

from copy import deepcopy

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_embedded
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.disposition import NOT_IN, Disposition, SkipRequest
from kdissect.replay.effects import Coroutine, Gate, spawn, until
from kdissect.replay.handlers.rejoin import SUBSCRIPTION, lengthen_session, rejoin
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.prior_members import TOGETHER_NS, PriorMember
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.roles import rewriter
from kdissect.replay.rewrite.versions import chosen_version, convert
from kdissect.replay.target.members import JOINING, LiveMember, own_member_id

SESSION_MS, REBALANCE_MS, ASSIGNOR = 45_000, 60_000, "range"  # of clients that nobody configured
USUAL_JOIN, INSTANCES = 7, 5  # versions of JoinGroup; members can be static from the second (KIP-345)
JOINED = "members let in that are older than the capture"


def member_of(context: ReplayContext, group: str, captured: str) -> Coroutine[LiveMember]:
    """Return the member that stands for a captured one.

    Raise SkipRequest if there is none, or it is not in.
    """
    live = yield from member_if_any(context, group, captured)
    if live is None or not live.is_in:
        raise SkipRequest(Disposition.DEPENDENCY, NOT_IN)
    return live


def member_if_any(context: ReplayContext, group: str, captured: str) -> Coroutine[LiveMember | None]:
    """Return the member that stands for a captured one, or None.

    A member that is older than the capture joins first.
    """
    prior = context.loaded.prior_members.get((group, captured))
    live = context.members.live(group, captured)
    if live is None and prior is not None:
        if prior.joins_by == ApiKey.JOIN_GROUP:
            yield from _join_together(context, prior)
        else:
            yield from spawn(_join_by_heartbeat(context, prior), prior.connection)
        live = context.members.live(group, captured)
    if live is not None and live.rejoining is not None:
        yield from until(live.rejoining)
    return live


def _join_together(context: ReplayContext, first: PriorMember) -> Coroutine[None]:
    """Start the joins of all members of a group that spoke first at about the same time."""
    for prior in context.loaded.prior_members.values():
        beside = prior.group == first.group and prior.joins_by == ApiKey.JOIN_GROUP
        if not beside or prior.first_ns > first.first_ns + TOGETHER_NS:
            continue
        if context.members.live(prior.group, prior.member):
            continue
        live = LiveMember(prior.group, "", connection=prior.connection)
        context.members.learn(live, prior.member)
        context.notes.counts[JOINED] += 1
        live.join, live.join_version = _join_request(context, prior)
        live.client_id = context.names.client_id(prior.client_id)
        yield from spawn(rejoin(context, live), prior.connection)


def _join_request(context: ReplayContext, prior: PriorMember) -> tuple[Tree, int]:
    """Return a member's JoinGroup from what the capture tells of it, in a version that the target speaks."""
    captured, template = prior.template or (USUAL_JOIN, {})
    version = chosen_version(ApiKey.JOIN_GROUP, captured, context.cluster.versions.get(ApiKey.JOIN_GROUP))
    if version is None:
        raise SkipRequest(Disposition.VERSION, "the target does not speak JoinGroup")
    metadata = encode_embedded(SUBSCRIPTION, 1, {"topics": list(prior.topics)})
    usual: Tree = {
        "group_id": prior.group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": ASSIGNOR, "metadata": metadata}],
    }
    body = deepcopy(template or usual) | {"member_id": ""}
    if captured >= INSTANCES:
        body["group_instance_id"] = prior.instance
    rewriter(APIS[ApiKey.JOIN_GROUP].request, captured)(body, context.names)
    lengthen_session(context, body)
    return convert(ApiKey.JOIN_GROUP, body, captured, version, context.names).tree, version


def _join_by_heartbeat(context: ReplayContext, prior: PriorMember) -> Coroutine[None]:
    """Join with a heartbeat that has all its fields and the epoch of a new member (KIP-848)."""
    key = prior.joins_by
    live = LiveMember(prior.group, "", joins_by=key, connection=prior.connection)
    context.members.learn(live, prior.member)
    gate = live.rejoining = Gate()
    try:
        version = chosen_version(key, 1, context.cluster.versions.get(key))
        if version is None:
            return
        live.member_id = own_member_id(context.settings.run, prior.group, prior.member)
        body: Tree = {
            "group_id": prior.group,
            "member_id": live.member_id,
            "member_epoch": JOINING,
            "subscribed_topic_names": list(prior.topics),
        }
        if key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            body |= {
                "rebalance_timeout_ms": REBALANCE_MS,
                "instance_id": prior.instance,
                "topic_partitions": [],
            }
        rewriter(APIS[key].request, version)(body, context.names)
        live.join = {name: value for name, value in body.items() if value is not None}
        context.notes.counts[JOINED] += 1
        client_id = context.names.client_id(prior.client_id)
        answer = yield from context.coordinators.ask(key, version, body, client_id)
        live.take_heartbeat_response(answer.body)
    finally:
        live.rejoining = None
        gate.open()
