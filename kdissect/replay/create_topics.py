"""Topics that a replay needs and the target lacks: created with as many partitions as captured.

Nothing is ever deleted, and no topic is changed that exists.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode, error_name
from kdissect.replay.effects import Coroutine, Part, ask_one
from kdissect.replay.engine.run import Replay
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.policy import is_internal
from kdissect.replay.rewrite.versions import chosen_version

TIMEOUT_MS = 30_000
NEWEST_VERSION = 4  # of CreateTopics: newer ones have nothing that is needed
CREATED, NOT_SETTLED = "created", "created, but not every node knows its leaders yet"
NOT_SPOKEN = "the target has no CreateTopics, so create it there by other means"


class MissingTopic(NamedTuple):
    """A topic to create."""

    name: str  # on the target
    partitions: int
    replicas: int


class CreatedTopic(NamedTuple):
    """Result for a topic that was missing."""

    wanted: MissingTopic
    outcome: str


def missing_topics(replay: Replay) -> list[MissingTopic]:
    """Return the topics of the capture that the target lacks, with no more replicas than it has nodes.

    Topics that the run itself creates, as the capture did, are not among them.
    """
    most = replay.cluster.most_replicas
    return [
        MissingTopic(replay.loaded.names.topic(name), source.partitions, min(source.replicas or 1, most))
        for name, source in sorted(replay.loaded.source.topics.items())
        if source.partitions
        and name not in replay.loaded.created
        and not is_internal(name)
        and replay.loaded.names.topic(name) not in replay.cluster.topics
    ]


def assume_created(context: ReplayContext, missing: Sequence[MissingTopic]) -> set[str]:
    """Have topics count as created, under their captured ids, for a plan. Return their names."""
    wanted = {topic.name for topic in missing}
    for captured_id, name in context.names.captured_ids.items():
        if context.names.topic(name) in wanted:
            context.names.learn(context.names.topic(name), captured_id)
    return wanted


def create_topics(context: ReplayContext, missing: Sequence[MissingTopic]) -> Coroutine[list[CreatedTopic]]:
    """Create topics, wait until every node knows their leaders, and return what became of each."""
    spoken = context.cluster.versions.get(ApiKey.CREATE_TOPICS)
    version = chosen_version(ApiKey.CREATE_TOPICS, NEWEST_VERSION, spoken)
    if version is None:
        return [CreatedTopic(topic, NOT_SPOKEN) for topic in missing]
    body = {
        "topics": [
            {"name": topic.name, "num_partitions": topic.partitions, "replication_factor": topic.replicas}
            for topic in missing
        ],
        "timeout_ms": TIMEOUT_MS,
    }
    answer = yield from ask_one(Part(ApiKey.CREATE_TOPICS, version, body, wait_ms=TIMEOUT_MS))
    errors = {topic["name"]: topic["error_code"] for topic in answer.body.get("topics") or ()}
    created = [topic.name for topic in missing if errors.get(topic.name) == ErrorCode.NONE]
    outcomes = {name: error_name(code) for name, code in errors.items()} | dict.fromkeys(created, CREATED)
    unsettled = yield from context.discovery.until_settled(
        created, {each.name: each.partitions for each in missing}
    )
    outcomes |= dict.fromkeys(unsettled, NOT_SETTLED)
    return [CreatedTopic(topic, outcomes.get(topic.name, str(answer.bucket))) for topic in missing]
