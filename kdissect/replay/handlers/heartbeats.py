"""Groups without a leader (KIP-848, and share groups, KIP-932): all that a member says and is told is a heartbeat.

A heartbeat says the member's epoch and partitions as the target told them last. A member that the target put out joins again with
all that it said when it joined; one that is older than the capture is let in first (see `elders`).
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.effects import Answer, Course
from kdissect.replay.handlers.prior_member_joins import member_of
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.rewrite.roles import Tree
from kdissect.replay.target.members import (
    JOINING,
    Live,
    own_member_id,
)

NAMED_BY_CLIENT = 1  # ConsumerGroupHeartbeat from which members choose their ids


def heartbeat(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Heartbeat as the live member."""
    key = item.request.key
    version = stage.version(item)
    group, captured = body["group_id"], body["member_id"]
    said = stage.captured_answer(item)
    live: Live | None = stage.members.live(group, captured)
    if live is None and body["member_epoch"] == JOINING:
        own = (
            own_member_id(stage.settings.run, group, captured)
            if captured and version >= NAMED_BY_CLIENT
            else ""
        )
        live = Live(group, own, joins_by=key)
    elif live is None or live.rejoining is not None:
        live = yield from member_of(stage, group, captured)
    live.connection = item.request.connection
    joining = body["member_epoch"] == JOINING or (body["member_epoch"] > 0 and live.generation <= 0)
    owned = body.get("topic_partitions")
    if "topic_partitions" in body:
        body["topic_partitions"] = None
    body = stage.carried(item, body, version)
    if joining:
        body = {**{name: live.join[name] for name in live.join if body.get(name) is None}, **_present(body)}
        body["member_epoch"] = JOINING
        live.join = dict(body)
    elif body["member_epoch"] > 0:
        body["member_epoch"] = live.generation
    if "topic_partitions" in body or (joining and owned is not None):
        body["topic_partitions"] = [] if joining else live.owned if owned is not None else None
    body["member_id"] = live.member_id
    answer: Answer = yield from stage.insist(key, version, body, stage.client_id(item), item)
    live.heartbeat_answered(answer.body)
    for name in {captured, said.get("member_id") or captured}:
        if name:
            stage.members.learn(name, live)
    if (
        body["member_epoch"] < 0 and key != ApiKey.SHARE_GROUP_HEARTBEAT
    ):  # what it holds may be acknowledged later
        stage.members.forget(group, captured)
    return [answer]


def _present(body: Tree) -> Tree:
    return {name: value for name, value in body.items() if value is not None}
