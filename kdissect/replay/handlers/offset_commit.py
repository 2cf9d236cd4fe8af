"""OffsetCommit and OffsetFetch: positions of the target under the name of the mapped group.

Without membership (`--groups simple`) a commit names no member and no generation, which a coordinator accepts
while the group has no members. With it the live member commits. TxnOffsetCommit commits by the same rules.
"""

from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Answer, Coroutine
from kdissect.replay.handlers.prior_member_joins import member_if_any
from kdissect.replay.handlers.rejoin import send_as_member
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.routing import send_to_coordinator
from kdissect.replay.load.replay_input import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.settings import Groups
from kdissect.replay.target.members import LiveMember

LEAST_COMMIT = 2  # older versions do not tell a member's commit from others


def commit(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Commit translated offsets."""
    version = context.rewriter.version(item, least=LEAST_COMMIT)
    translate_commits(context, item, body)
    group, member = body["group_id"], body.get("member_id", "")
    live: LiveMember | None = None
    if context.settings.groups is Groups.FULL:
        live = yield from member_if_any(context, group, member)
    put_member(context, body, group, "generation_id_or_member_epoch")
    body = context.rewriter.rewrite(item, body, version)
    if live is not None and live.join_version:
        return [(yield from send_as_member(context, item, live, version, body))]
    return [(yield from send_to_coordinator(context, item, version, body))]


def fetch_committed(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Ask for committed offsets, as the live member or as nobody."""
    version = context.rewriter.version(item)
    for group in body.get("groups") or ():
        if group.get("member_id"):
            live = context.members.live(group["group_id"], group["member_id"])
            group["member_id"] = live.member_id if live else None
            group["member_epoch"] = live.generation if live else -1
    body = context.rewriter.rewrite(item, body, version)
    return [(yield from send_to_coordinator(context, item, version, body))]


def translate_commits(context: ReplayContext, item: ReplayItem, body: Tree) -> None:
    """Put the target's positions into a request that commits offsets; drop topics that are not on the target.

    Raise SkipRequest if none is left, or if a topic has no name.
    """
    kept = []
    for topic in body["topics"]:
        name = context.names.captured_topic(topic)
        if name is None:
            raise SkipRequest(Disposition.HEADLESS, "a topic id has no name in the capture")
        for fields in topic["partitions"]:
            partition, offset = (name, fields["partition_index"]), fields["committed_offset"]
            translated = context.positions.translate(partition, offset, item.client_id or "")
            fields["committed_offset"] = translated.offset
        if context.names.topic(name) in context.cluster.topics:
            kept.append(topic)
    body["topics"] = kept
    if not kept:
        raise SkipRequest(Disposition.DEPENDENCY, "none of its topics is on the target")


def put_member(context: ReplayContext, body: Tree, group: str, generation: str) -> None:
    """Put in who commits: the live member, or nobody if membership is not replayed.

    `generation` names the field.
    """
    live: LiveMember | None = None
    if context.settings.groups is Groups.FULL:
        live = context.members.live(group, body.get("member_id", ""))
    if generation in body:
        body[generation] = live.generation if live else -1
    if "member_id" in body:
        body["member_id"] = live.member_id if live else ""
    if live is None and "group_instance_id" in body:
        body["group_instance_id"] = None
