"""Members older than the capture are let in before they go on: by joins that the capture does not have.

Members of one group come in together, each on its own connection, as the ones that the capture shows have long done: one after
another each would wait for those who are in to hear of it.
"""

from copy import deepcopy

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_embedded
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import (
    Coroutine,
    Gate,
    Until,
)
from kdissect.replay.handlers.assignment import SUBSCRIPTION
from kdissect.replay.handlers.rejoin import longer, rejoin
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.prior_members import TOGETHER_NS, PriorMember
from kdissect.replay.rewrite.roles import (
    SkipRequest,
    Tree,
    rewriter,
)
from kdissect.replay.rewrite.versions import chosen_version, convert
from kdissect.replay.target.members import (
    JOINING,
    Live,
    own_member_id,
)

SESSION_MS, REBALANCE_MS, ASSIGNOR = 45_000, 60_000, "range"  # of clients that nobody configured
USUAL_JOIN, INSTANCES = 7, 5  # versions of JoinGroup; members can be static from the second
NOT_IN = "its member did not get into the group"


def member_of(stage: ReplayContext, group: str, captured: str) -> Coroutine:
    """Give who stands for a captured member. Raises SkipRequest if nobody does."""
    live: Live | None = yield from member_if_any(stage, group, captured)
    if live is None or live.generation < 0:
        raise SkipRequest(Disposition.DEPENDENCY, NOT_IN)
    return live


def member_if_any(stage: ReplayContext, group: str, captured: str) -> Coroutine:
    """Give who stands for a captured member, or None; one that is older than the capture is let in first."""
    elder = stage.loaded.elders.get((group, captured))
    live = stage.members.live(group, captured)
    if live is None and elder is not None:
        if elder.joins_by == ApiKey.JOIN_GROUP:
            _let_in_together(stage, elder)
        else:
            stage.spawn(_let_in_by_heartbeat(stage, elder), elder.connection)
        live = stage.members.live(group, captured)
    if live is not None and live.generation < 0 and live.rejoining is not None:
        yield Until(live.rejoining)
    return live


def _let_in_together(stage: ReplayContext, first: PriorMember) -> None:
    for elder in stage.loaded.elders.values():
        beside = elder.group == first.group and elder.joins_by == ApiKey.JOIN_GROUP
        if (
            not beside
            or elder.first_ns > first.first_ns + TOGETHER_NS
            or stage.members.live(elder.group, elder.member)
        ):
            continue
        live = Live(elder.group, "", connection=elder.connection)
        stage.members.learn(elder.member, live)
        stage.counts["members let in that are older than the capture"] += 1
        live.join, live.join_version = _join(stage, elder)
        stage.spawn(rejoin(stage, stage.renamed_client(elder.client_id), live), elder.connection)


def _join(stage: ReplayContext, elder: PriorMember) -> tuple[Tree, int]:
    """Make the join of a member from what is told of it: the target's names, in a version that the target speaks."""
    captured, template = elder.template or (USUAL_JOIN, {})
    version = chosen_version(ApiKey.JOIN_GROUP, captured, stage.topology.versions.get(ApiKey.JOIN_GROUP))
    if version is None:
        raise SkipRequest(Disposition.VERSION, "the target does not speak JoinGroup")
    metadata = encode_embedded(SUBSCRIPTION, 1, {"topics": list(elder.topics)})
    body: Tree = {
        "group_id": elder.group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": ASSIGNOR, "metadata": metadata}],
        **deepcopy(template),
        "member_id": "",
    }
    if captured >= INSTANCES:
        body["group_instance_id"] = elder.instance
    rewriter(APIS[ApiKey.JOIN_GROUP].request, captured)(body, stage.names)
    longer(stage, body)
    return convert(ApiKey.JOIN_GROUP, body, captured, version, stage.names).tree, version


def _let_in_by_heartbeat(stage: ReplayContext, elder: PriorMember) -> Coroutine:
    """Join as KIP-848 has it: all that a heartbeat can say, under the epoch of one who is not in yet."""
    key = elder.joins_by
    live = Live(elder.group, "", joins_by=key, connection=elder.connection)
    stage.members.learn(elder.member, live)
    gate = live.rejoining = Gate()
    try:
        version = chosen_version(key, 1, stage.topology.versions.get(key))
        if version is None:
            return
        live.member_id = own_member_id(stage.settings.run, elder.group, elder.member)
        body: Tree = {
            "group_id": elder.group,
            "member_id": live.member_id,
            "member_epoch": JOINING,
            "subscribed_topic_names": list(elder.topics),
        }
        if key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            body |= {
                "rebalance_timeout_ms": REBALANCE_MS,
                "instance_id": elder.instance,
                "topic_partitions": [],
            }
        rewriter(APIS[key].request, version)(body, stage.names)
        live.join = {name: value for name, value in body.items() if value is not None}
        stage.counts["members let in that are older than the capture"] += 1
        answer = yield from stage.insist(key, version, body, stage.renamed_client(elder.client_id))
        live.heartbeat_answered(answer.body)
    finally:
        live.rejoining = None
        gate.open()
