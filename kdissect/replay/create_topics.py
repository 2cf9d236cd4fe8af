"""Topics for a replay: those on the plan that the target lacks, with as many partitions as captured.

Nothing is ever deleted.
"""

from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import error_name
from kdissect.replay.effects import (
    Coroutine,
    Part,
    ask_one,
)
from kdissect.replay.engine.run import Replay
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.policy import is_internal
from kdissect.replay.rewrite.versions import chosen_version

TIMEOUT_MS = 30_000
CREATED, NOT_SETTLED = "created", "created, but not every node knows its leaders yet"


class MissingTopic(NamedTuple):
    """A topic to be made."""

    name: str
    partitions: int
    replicas: int


class CreatedTopic(NamedTuple):
    """What became of it."""

    wanted: MissingTopic
    outcome: str


def missing_topics(replay: Replay) -> list[MissingTopic]:
    """List the topics on the plan that the target lacks."""
    brokers = max(len(replay.cluster.nodes), 1)
    return [
        MissingTopic(replay.loaded.names.topic(name), source.partitions, min(source.replicas or 1, brokers))
        for name, source in sorted(replay.loaded.source.topics.items())
        if source.partitions
        and not is_internal(name)
        and replay.loaded.names.topic(name) not in replay.cluster.topics
    ]


def create_topics(context: ReplayContext, wanted: list[MissingTopic]) -> Coroutine[list[CreatedTopic]]:
    """Create topics and wait until every node knows their leaders; give what became of each."""
    version = chosen_version(ApiKey.CREATE_TOPICS, 4, context.cluster.versions.get(ApiKey.CREATE_TOPICS)) or 0
    body = {
        "topics": [
            {"name": each.name, "num_partitions": each.partitions, "replication_factor": each.replicas}
            for each in wanted
        ],
        "timeout_ms": TIMEOUT_MS,
    }
    answer = yield from ask_one(Part(ApiKey.CREATE_TOPICS, version, body, wait_ms=TIMEOUT_MS))
    outcomes = {each["name"]: each["error_code"] for each in answer.body.get("topics") or ()}
    created = [each.name for each in wanted if outcomes.get(each.name) == 0]
    said = {name: error_name(code) for name, code in outcomes.items()} | dict.fromkeys(created, CREATED)
    said |= dict.fromkeys((yield from context.discovery.until_settled(created, created=True)), NOT_SETTLED)
    return [CreatedTopic(each, said.get(each.name, str(answer.bucket))) for each in wanted]
