"""OffsetCommit: a position of the target under the name of the mapped group.

Without membership (`--groups simple`) a commit says no member and no generation, which a coordinator takes while the group has no
members. With it the live member commits.
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.effects import Answer, Course
from kdissect.replay.handlers.prior_member_joins import member_if_any
from kdissect.replay.handlers.rejoin import as_member
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.rewrite.roles import Tree
from kdissect.replay.settings import Groups
from kdissect.replay.target.members import Live

LEAST_VERSION = 2  # older ones do not say what a member is


def commit(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Commit translated offsets."""
    version = stage.version(item, least=LEAST_VERSION)
    stage.translate_commits(item, body)
    group, member = body["group_id"], body.get("member_id", "")
    full = stage.settings.groups is Groups.FULL
    live: Live | None = (yield from member_if_any(stage, group, member)) if full else None
    stage.put_member(body, group, "generation_id_or_member_epoch")
    body = stage.carried(item, body, version)
    if live is not None and live.join_version:
        return [(yield from as_member(stage, item, live, version, body))]
    answer: Answer = yield from stage.insist(ApiKey.OFFSET_COMMIT, version, body, stage.client_id(item), item)
    return [answer]


def fetch_committed(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Ask for committed offsets, as the live member or as nobody."""
    version = stage.version(item)
    for group in body.get("groups") or ():
        if group.get("member_id"):
            live = stage.members.live(group["group_id"], group["member_id"])
            group["member_id"], group["member_epoch"] = (
                (live.member_id, live.generation) if live else (None, -1)
            )
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(ApiKey.OFFSET_FETCH, version, body, stage.client_id(item), item)
    return [answer]
