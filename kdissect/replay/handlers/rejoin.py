"""What members of classic groups do of the replayer's own accord: get in, get in again, and leave when a run ends.

A live rebalance that the capture did not have is joined by the replayer's own requests, as a client would.
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import CLASSIC_MEMBER_LOST, ErrorCode, error_name
from kdissect.replay.effects import (
    Answer,
    Coroutine,
    Gate,
    Until,
)
from kdissect.replay.handlers.assignment import assignments
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.rewrite.roles import Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.target.members import Live

LONGEST_SESSION_MS = 1_800_000  # group.max.session.timeout.ms of a broker that nobody configured


def longer(stage: ReplayContext, join: Tree) -> None:
    """Give a member more time where heartbeats come slower than captured."""
    if stage.settings.speed < 1:
        session_ms = int(join["session_timeout_ms"] / stage.settings.speed)
        join["session_timeout_ms"] = min(session_ms, LONGEST_SESSION_MS)


def joined(
    stage: ReplayContext,
    client_id: str | None,
    live: Live,
    body: Tree,
    version: int,
    answer: Answer,
    stop_at_id: bool,
) -> Coroutine:
    """Go on until the member is in, or the target gave it the id that the capture's next join will use."""
    while True:
        said = answer.body
        error = said.get("error_code") if said else None
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            live.member_id = said["member_id"]
            if stop_at_id:
                return answer
        elif error == ErrorCode.UNKNOWN_MEMBER_ID and body["member_id"]:
            live.member_id = ""
        else:
            break
        body = body | {"member_id": live.member_id}
        answer = yield from stage.insist(ApiKey.JOIN_GROUP, version, body, client_id)
    if said and not said["error_code"]:
        live.member_id, live.generation = said["member_id"], said["generation_id"]
        live.leader, live.protocol = said["leader"], said.get("protocol_name")
        live.others = [each["member_id"] for each in said["members"]]
        live.join, live.join_version = body | {"member_id": live.member_id}, version
    return answer


def as_member(stage: ReplayContext, item: ReplayItem, live: Live, version: int, body: Tree) -> Coroutine:
    """Ask as a member; if the target rebalanced where the capture did not, join again and ask again, as a client would."""
    key = item.request.key
    answer: Answer = yield from stage.insist(key, version, body, stage.client_id(item), item)
    error = answer.errors[0] if answer.errors else 0
    if error not in CLASSIC_MEMBER_LOST or item.error:
        return answer
    stage.counts["rebalances joined by the replayer"] += 1
    if not (yield from rejoin(stage, stage.client_id(item), live)):
        return answer
    stage.note(item, f"asked again after {error_name(error)}: the target rebalanced")
    generation = (
        "generation_id_or_member_epoch" if "generation_id_or_member_epoch" in body else "generation_id"
    )
    body = body | {"member_id": live.member_id, generation: live.generation}
    return (yield from stage.insist(key, version, body, stage.client_id(item)))


def put(body: Tree, live: Live, version: int) -> None:
    """Say in a SyncGroup request who the live member is."""
    body["member_id"], body["generation_id"] = live.member_id, live.generation
    if version >= 5:
        body["protocol_type"], body["protocol_name"] = "consumer", live.protocol


def rejoin(stage: ReplayContext, client_id: str | None, live: Live) -> Coroutine:
    """Join and sync again by ourselves; tell whether that went well."""
    if live.rejoining is not None:
        return (yield Until(live.rejoining))
    if not live.join:
        return False
    gate = live.rejoining = Gate()
    try:
        answer = yield from stage.insist(ApiKey.JOIN_GROUP, live.join_version, live.join, client_id)
        answer = yield from joined(stage, client_id, live, live.join, live.join_version, answer, False)
        if not answer.body or answer.body["error_code"]:
            return False
        version = chosen_version(ApiKey.SYNC_GROUP, 3, stage.topology.versions.get(ApiKey.SYNC_GROUP)) or 0
        body: Tree = {"group_id": live.join["group_id"], "assignments": []}
        put(body, live, version)
        if version >= 3:
            body["group_instance_id"] = live.join.get("group_instance_id")
        if live.leads:
            generations = [
                generation for group, generation in stage.loaded.assignments if group == live.group
            ]
            body["assignments"] = assignments(stage, live, max(generations, default=-1))
        answer = yield from stage.insist(ApiKey.SYNC_GROUP, version, body, client_id)
        return bool(answer.body) and not answer.body["error_code"]
    finally:
        live.rejoining = None
        gate.open()


def leave_all(stage: ReplayContext) -> Coroutine:
    """Take all members that are left out of their groups: nobody should wait for their sessions to end."""
    for live in stage.members.all():
        if live.generation <= 0:
            continue
        if live.joins_by == ApiKey.JOIN_GROUP:
            version = (
                chosen_version(ApiKey.LEAVE_GROUP, 3, stage.topology.versions.get(ApiKey.LEAVE_GROUP)) or 0
            )
            group = stage.names.group(live.group)
            body: Tree = {"group_id": group, "members": [{"member_id": live.member_id}]}
            if version < 3:
                body = {"group_id": group, "member_id": live.member_id}
            yield from stage.insist(ApiKey.LEAVE_GROUP, version, body, None)
        else:
            body = {
                "group_id": stage.names.group(live.group),
                "member_id": live.member_id,
                "member_epoch": -1,
            }
            version = chosen_version(live.joins_by, 0, stage.topology.versions.get(live.joins_by)) or 0
            yield from stage.insist(live.joins_by, version, body, None)
        live.generation = -1
