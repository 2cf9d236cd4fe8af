"""Questions about where things are: Metadata, ListOffsets and OffsetForLeaderEpoch; and changes of topics."""

from collections.abc import Iterable
from functools import partial

from kdissect.exchanges.filter import topics_of
from kdissect.replay.effects import Answer, Coroutine, ask
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import (
    default_handler,
    route,
    send_routed,
    until_order_allows,
)
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.policy import FIRST_OF_CONSUMERS
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.settings import Timestamps
from kdissect.replay.target.discover import EARLIEST, LATEST
from kdissect.replay.target.leaders import LEAST_METADATA

LEAST_LIST_OFFSETS = 1  # version 0 returns several offsets
LATE_DELETIONS = "deletions that waited too long for what was written before"
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


def create(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a request that makes topics or partitions, and learn where they are."""
    counts = {
        context.names.topic(each["name"]): max(each.get("num_partitions", each.get("count", 1)), 1)
        for each in body["topics"]
    }
    _fit_replicas(context, body)
    answers = yield from default_handler(context, item, body)
    made = [
        each["name"]
        for answer in answers
        for each in answer.body.get("topics") or answer.body.get("results") or ()
        if not each["error_code"] and not body.get("validate_only")
    ]
    yield from context.discovery.until_settled(made, counts)
    return answers


def _fit_replicas(context: ReplayContext, body: Tree) -> None:
    """Ask for no more replicas than the target has nodes, as `create_topics` does."""
    nodes = max(len(context.cluster.nodes), 1)
    for topic in body["topics"]:
        if topic.get("replication_factor", 0) > nodes:
            topic["replication_factor"] = nodes
            context.notes.counts["topics created with fewer replicas"] += 1


def delete(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a request that deletes topics or records, after what was written to them before."""
    request = item.request
    for topic in topics_of(request.key, request.version or 0, body, context.names.captured_ids):
        missing = partial(context.order.missing_write_to, topic, request.index)
        yield from until_order_allows(context, missing, LATE_DELETIONS)
    return (yield from default_handler(context, item, body))


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
