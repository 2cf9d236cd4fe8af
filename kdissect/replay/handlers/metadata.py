"""Questions about where things are: Metadata, ListOffsets and OffsetForLeaderEpoch."""

from collections.abc import Iterable

from kdissect.replay.effects import Answer, Coroutine, ask
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import route, send_routed
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.policy import FIRST_OF_CONSUMERS
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.settings import Timestamps
from kdissect.replay.target.discover import EARLIEST, LATEST
from kdissect.replay.target.leaders import LEAST_METADATA

LEAST_LIST_OFFSETS = 1  # version 0 returns several offsets
NAMES_REPLICA = 3  # OffsetForLeaderEpoch from which a request says who asks


def metadata(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a Metadata request, but never let it create a topic, as versions below 4 would."""
    version = context.rewriter.version(item, least=LEAST_METADATA)
    body = metadata_body(context, item, body, version)
    return (yield from ask((yield from route(context, item, version, body))))


def metadata_body(context: ReplayContext, item: ReplayItem, body: Tree, version: int) -> Tree:
    """Return a rewritten Metadata request; `body` is changed."""
    body["allow_auto_topic_creation"] = False
    if (item.request.version or 0) == 0 and body.get("topics") == []:
        body["topics"] = None  # in version 0 an empty list asks for all
    return context.rewriter.rewrite(item, body, version) | {"allow_auto_topic_creation": False}


def list_offsets(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a ListOffsets request; a question by time moves with the records' times."""
    captured: dict[TopicPartition, tuple[str, int]] = {}  # partition of the target -> captured topic, time
    shifted = context.settings.timestamps is not Timestamps.KEEP
    for topic in body["topics"]:
        for partition in topic["partitions"]:
            if shifted and partition["timestamp"] >= 0:
                partition["timestamp"] += context.clock.shift_ms
            target = (context.names.topic(topic["name"]), partition["partition_index"])
            captured[target] = (topic["name"], partition["timestamp"])
    version = context.rewriter.version(item, least=LEAST_LIST_OFFSETS)
    body = context.rewriter.rewrite(item, body, version)
    answers = yield from send_routed(context, item, version, body)
    _learn_bounds(context, answers, captured)
    return answers


def _learn_bounds(
    context: ReplayContext, answers: Iterable[Answer], captured: dict[TopicPartition, tuple[str, int]]
) -> None:
    for topic in (topic for answer in answers for topic in answer.body.get("topics") or ()):
        for partition in topic["partitions"]:
            asked = captured.get((topic["name"], partition["partition_index"]))
            if asked is None or partition["error_code"]:
                continue
            name, timestamp = asked
            if timestamp == EARLIEST:
                context.positions.set_bounds((name, partition["partition_index"]), start=partition["offset"])
            elif timestamp == LATEST:
                context.positions.set_bounds((name, partition["partition_index"]), end=partition["offset"])


def leader_epochs(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay an OffsetForLeaderEpoch request.

    Epochs of one cluster mean nothing in another, so the present one is asked for.
    """
    version = context.rewriter.version(item, least=FIRST_OF_CONSUMERS)
    body = context.rewriter.rewrite(item, body, version)
    for topic in body["topics"]:
        known = context.cluster.topics.get(topic["topic"])
        for partition in topic["partitions"]:
            partition["leader_epoch"] = known.epochs.get(partition["partition"], -1) if known else -1
    if version >= NAMES_REPLICA:
        body["replica_id"] = -1
    return (yield from send_routed(context, item, version, body))
