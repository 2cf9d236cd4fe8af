"""OffsetCommit and OffsetFetch: positions of the target under the name of the mapped group.

Without membership (`--groups simple`) a commit names no member and no generation, which a coordinator accepts
while the group has no members. With it the live member commits. TxnOffsetCommit commits by the same rules.
"""

from collections.abc import Callable, Container
from functools import partial
from typing import TypeAlias

from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Answer, Coroutine, pause
from kdissect.replay.handlers.prior_member_joins import member_if_any
from kdissect.replay.handlers.rejoin import SOON_NS, send_as_member
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import (
    send_to_coordinator,
    until_group_allows,
    until_order_allows,
    until_written_before,
)
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.prior_members import COMMIT_GENERATION
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.settings import Groups
from kdissect.replay.target.members import LiveMember

CommittedOffsets: TypeAlias = dict[TopicPartition, tuple[int, int]]
"""Captured partition -> its offset as captured, and as sent."""

MOST_PAUSES = 10  # of SOON_NS, until a heartbeat that the target has answered comes back
LEAST_COMMIT = 2  # older versions do not tell a member's commit from others


def commit(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Commit translated offsets."""
    version = context.rewriter.version(item, least=LEAST_COMMIT)
    yield from until_committable(context, item, body)
    yield from until_group_allows(context, item)
    offsets = translate_commits(context, item, body)
    group, member = body["group_id"], body.get("member_id", "")
    live: LiveMember | None = None
    if context.settings.groups is Groups.FULL:
        live = yield from member_if_any(context, group, member)
    put_member(context, body, group)
    body = context.rewriter.rewrite(item, body, version)
    if live is not None and live.join_version:
        answer = yield from send_as_member(context, item, live, version, body)
    else:
        answer = yield from send_to_coordinator(context, item, version, body)
        if live is not None and _is_stale(item, answer):
            answer = yield from _ask_at_new_epoch(
                context,
                item,
                live,
                body[COMMIT_GENERATION],
                answer,
                lambda raised: body | {COMMIT_GENERATION: raised.generation},
            )
    note_committed(context, item, group, offsets, answer)
    return [answer]


def fetch_committed(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Ask for committed offsets, as the live member or as nobody."""
    version = context.rewriter.version(item)
    asking: dict[str, LiveMember] = {}  # by the group's name on the target
    for group in body.get("groups") or ():
        if group.get("member_id"):
            live = context.members.live(group["group_id"], group["member_id"])
            group["member_id"] = live.member_id if live else None
            group["member_epoch"] = live.generation if live else -1
            if live is not None:
                asking[context.names.group(group["group_id"])] = live
    body = context.rewriter.rewrite(item, body, version)
    answer = yield from send_to_coordinator(context, item, version, body)
    for group in body.get("groups") or ():
        live = asking.get(group["group_id"])
        if live is not None and group.get("member_id") and _is_stale(item, answer):
            answer = yield from _ask_at_new_epoch(
                context, item, live, group["member_epoch"], answer, partial(_with_epoch, body)
            )
    return [answer]


def _is_stale(item: ReplayItem, answer: Answer) -> bool:
    """Return whether the target knows a newer epoch of a member, unlike the captured cluster."""
    return answer.first_error == ErrorCode.STALE_MEMBER_EPOCH and not item.error


def _with_epoch(body: Tree, live: LiveMember) -> Tree:
    """Return an OffsetFetch that asks at the epoch that a member has now."""
    now = {"member_id": live.member_id, "member_epoch": live.generation}
    return body | {
        "groups": [
            group | now if group.get("member_id") == live.member_id else group for group in body["groups"]
        ]
    }


def _ask_at_new_epoch(
    context: ReplayContext,
    item: ReplayItem,
    live: LiveMember,
    refused_at: int,
    refused: Answer,
    body: Callable[[LiveMember], Tree],
) -> Coroutine[Answer]:
    """Ask again, as a client does, if a heartbeat that was under way has raised the member's epoch.

    The target has raised it already, so the response to that heartbeat comes soon.
    """
    for _ in range(MOST_PAUSES):
        if live.generation != refused_at:
            break
        yield from pause(SOON_NS)
    if not live.is_in or live.generation == refused_at:
        return refused
    context.notes.add(item, "asked again after STALE_MEMBER_EPOCH: a heartbeat raised the epoch")
    part = refused.part
    return (yield from context.coordinators.ask(part.key, part.version, body(live), part.client_id))


def until_committable(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[None]:
    """Wait for what the captured client had seen before it committed: writes, and its own last fetch.

    Then wait for earlier commits of the same partitions.
    """
    offsets = [
        ((context.names.captured_topic(topic) or "", fields["partition_index"]), fields["committed_offset"])
        for topic in body["topics"]
        for fields in topic["partitions"]
    ]

    def missing() -> int | None:
        writes = (context.order.missing_write(*each, item.request.index) for each in offsets)
        found = next((index for index in writes if index is not None), None)
        return context.order.missing_before(item.request.index) if found is None else found

    yield from until_order_allows(context, missing)
    yield from until_written_before(context, item, body)


def note_committed(
    context: ReplayContext, item: ReplayItem, group: str, offsets: CommittedOffsets, answer: Answer
) -> None:
    """Note offsets, as captured and as sent, as committed wherever they were: each partition on its own."""
    index, names = item.request.index, context.names
    captured: Container[TopicPartition] = offsets.keys() if item.error == ErrorCode.NONE else ()
    if item.error:
        captured = _taken(context.captured.response(item.request), names.captured_topic)
    replayed = _taken(answer.body, names.captured_topic_of_target)
    for partition, (captured_offset, sent) in offsets.items():
        if partition in captured:
            context.commits.note_captured(index, group, partition, captured_offset)
        if partition in replayed:
            context.commits.note_replayed(index, group, partition, sent)


def _taken(body: Tree, name_of: Callable[[Tree], str | None]) -> set[TopicPartition]:
    """Return the partitions whose offsets a response does not refuse; `name_of` names its topics."""
    return {
        (name_of(topic) or "", each["partition_index"])
        for topic in body.get("topics") or ()
        for each in topic["partitions"]
        if not each["error_code"]
    }


def translate_commits(context: ReplayContext, item: ReplayItem, body: Tree) -> CommittedOffsets:
    """Put the target's positions into a request that commits offsets; drop topics that are not on the target.

    Return the offsets by captured partition.

    Raise SkipRequest if none is left, or if a topic has no name.
    """
    kept, offsets = [], dict[TopicPartition, tuple[int, int]]()
    for topic in body["topics"]:
        name = context.names.captured_topic(topic)
        if name is None:
            raise SkipRequest(Disposition.HEADLESS, "a topic id has no name in the capture")
        for fields in topic["partitions"]:
            partition, offset = (name, fields["partition_index"]), fields["committed_offset"]
            translated = context.positions.translate(partition, offset, item.client_id or "")
            fields["committed_offset"] = translated.offset
            offsets[partition] = offset, translated.offset
        if context.names.topic(name) in context.cluster.topics:
            kept.append(topic)
    body["topics"] = kept
    if not kept:
        raise SkipRequest(Disposition.DEPENDENCY, "none of its partitions is on the target")
    return offsets


def put_member(context: ReplayContext, body: Tree, group: str) -> None:
    """Put in who commits: the live member, or nobody if membership is not replayed."""
    live: LiveMember | None = None
    if context.settings.groups is Groups.FULL:
        live = context.members.live(group, body.get("member_id", ""))
    if COMMIT_GENERATION in body:
        body[COMMIT_GENERATION] = live.generation if live else -1
    if "member_id" in body:
        body["member_id"] = live.member_id if live else ""
    if live is None and "group_instance_id" in body:
        body["group_instance_id"] = None
