"""Questions whose answers say where things are: Metadata, ListOffsets and OffsetForLeaderEpoch."""

from kdissect.replay.effects import Ask, Course
from kdissect.replay.handlers.replay_context import LEAST_METADATA, ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.load.policy import FIRST_OF_CONSUMERS
from kdissect.replay.rewrite.roles import Tree
from kdissect.replay.settings import Timestamps

EARLIEST, LATEST = -2, -1
REPLICA_TOLD = 3  # OffsetForLeaderEpoch that says who asks


def metadata(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Ask, but never let a topic be created by asking: versions below 4 would."""
    version = stage.version(item, least=LEAST_METADATA)
    body = metadata_tree(stage, item, body, version)
    answers = yield Ask(tuple((yield from stage.parts(item, version, body))))
    return list(answers)


def metadata_tree(stage: ReplayContext, item: ReplayItem, body: Tree, version: int) -> Tree:
    """Rewrite a Metadata request."""
    body["allow_auto_topic_creation"] = False
    topics = body.get("topics")
    if (item.request.version or 0) == 0 and topics == []:
        body["topics"] = None  # in version 0 an empty list asks for all
    return stage.carried(item, body, version) | {"allow_auto_topic_creation": False}


def list_offsets(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Ask for positions; a question by time moves with the records' times."""
    shift_ms = stage.shift_ns // 1_000_000
    if stage.settings.timestamps is not Timestamps.KEEP:
        for topic in body["topics"]:
            for partition in topic["partitions"]:
                if partition["timestamp"] >= 0:
                    partition["timestamp"] += shift_ms
    version = stage.version(item, least=1)
    captured = {
        (stage.names.topic(topic["name"]), partition["partition_index"]): (
            topic["name"],
            partition["timestamp"],
        )
        for topic in body["topics"]
        for partition in topic["partitions"]
    }
    body = stage.carried(item, body, version)
    answers = yield Ask(tuple((yield from stage.parts(item, version, body))))
    stage.heed(answers)
    for answer in answers:
        for topic in answer.body.get("topics") or ():
            for partition in topic["partitions"]:
                asked = captured.get((topic["name"], partition["partition_index"]))
                if asked and not partition["error_code"]:
                    offset = partition["offset"]
                    where = (asked[0], partition["partition_index"])
                    stage.positions.target_bounds(
                        where, offset if asked[1] == EARLIEST else -1, offset if asked[1] == LATEST else -1
                    )
    return list(answers)


def leader_epochs(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Ask where an epoch ends. Epochs of one cluster mean nothing in another, so the one that leads on the target now is asked for."""
    version = stage.version(item, least=FIRST_OF_CONSUMERS)
    body = stage.carried(item, body, version)
    for topic in body["topics"]:
        known = stage.topology.topics.get(topic["topic"])
        for partition in topic["partitions"]:
            partition["leader_epoch"] = known.epochs.get(partition["partition"], -1) if known else -1
    if version >= REPLICA_TOLD:
        body["replica_id"] = -1
    answers = yield Ask(tuple((yield from stage.parts(item, version, body))))
    stage.heed(answers)
    return list(answers)
