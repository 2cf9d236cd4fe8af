"""Questions that change nothing: what the target is, asked before anything is planned or sent.

ApiVersions (by every link's handshake), Metadata, DescribeCluster and DescribeConfigs are all that a plan sends. Every node is
asked for the topics: metadata reach each of them at its own time (KIP-500), so that one may not know yet what another created.
"""

from dataclasses import dataclass, field

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kdissect.replay.effects import (
    Answer,
    Ask,
    Coroutine,
    Part,
    Pause,
    ask_one,
)
from kdissect.replay.handlers.replay_context import AGAIN_NS, ReplayContext
from kdissect.replay.rewrite.roles import Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.safety import check_cluster
from kdissect.replay.target.cluster import (
    AbortRun,
    leaders_in,
    split,
)

EARLIEST, LATEST = -2, -1
MOVING = LEADER_ERRORS | {ErrorCode.OFFSET_NOT_AVAILABLE}  # the latter from a leader that is new
LEADERLESS_NS = 10_000_000_000  # how long leaders may be looked for
TOPIC = 2
SETTINGS = (
    "max.message.bytes",
    "min.insync.replicas",
    "message.timestamp.type",
    "cleanup.policy",
    "retention.ms",
)


@dataclass(slots=True)
class Target:
    """What a target says of itself."""

    cluster_id: str | None = None
    unsettled: list[str] = field(default_factory=list)  # topics that not every node knows, with all leaders
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)  # topic -> setting -> value


def learn_target(stage: ReplayContext) -> Coroutine:
    """Ask the target; give a `Target`. Raises Refusing where a rail holds."""
    wanted = sorted({stage.names.topic(name) for name in stage.loaded.source.topics})
    answer: Answer = yield from stage.learn_topics([])
    if not answer.body:
        raise AbortRun(f"the target does not answer: {answer.bucket}")
    topology = stage.topology
    target = Target(topology.cluster_id)
    if ApiKey.DESCRIBE_CLUSTER in topology.versions:
        version = chosen_version(ApiKey.DESCRIBE_CLUSTER, 0, topology.versions[ApiKey.DESCRIBE_CLUSTER]) or 0
        said = (yield from ask_one(Part(ApiKey.DESCRIBE_CLUSTER, version, {}))).body
        if said and not said["error_code"]:
            for broker in said["brokers"]:
                topology.admit((broker["host"], broker["port"]))
            target.cluster_id = said["cluster_id"]
    check_cluster(stage.settings, stage.loaded.source, target.cluster_id)
    for node in sorted(topology.nodes):  # what all of them speak is known then
        yield from ask_one(Part(ApiKey.METADATA, _metadata_version(stage), {"topics": []}, node))
    target.unsettled = yield from until_settled(stage, wanted)
    yield from _learn_settings(stage, target)
    return target


def until_settled(stage: ReplayContext, topics: list[str], created: bool = False) -> Coroutine:
    """Learn topics from every node, again until all name the same leader for each partition; give those for which it took too long.

    What no node knows is not on the target, unless it is `created`: then it is waited for.
    """
    deadline = stage.now_ns() + LEADERLESS_NS
    while topics:
        version, body = stage.asking_for(topics)
        nodes = sorted(stage.topology.nodes)
        answers = yield Ask(
            tuple(Part(ApiKey.METADATA, version, body, node) for node in nodes), synthetic=True
        )
        views = sorted((each.body for each in answers if each.body), key=_led)
        for view in views:  # who knows most has the last word
            stage.topology.learn_metadata(view, stage.names)
        known = [leaders_in(view) for view in views]
        unsettled = [name for name in topics if not _settled([view.get(name) for view in known], created)]
        if not unsettled or stage.now_ns() >= deadline:
            return unsettled
        yield Pause(2 * AGAIN_NS)
    return []


def _led(view: Tree) -> int:
    return sum(leader >= 0 for leaders in leaders_in(view).values() for leader in leaders.values())


def _settled(views: list[dict[int, int] | None], created: bool) -> bool:
    """Tell whether all nodes say the same of a topic, and that each partition has a leader."""
    first = next((view for view in views if view), None)
    if first is None:
        return not created
    return all(view == first for view in views) and min(first.values()) >= 0


def learn_bounds(stage: ReplayContext) -> Coroutine:
    """Ask where each log begins and ends, so that positions can be found in it. Part of a run, not of a plan."""
    version = chosen_version(ApiKey.LIST_OFFSETS, 2, stage.topology.versions.get(ApiKey.LIST_OFFSETS))
    if version is None or stage.learning_bounds:
        return
    stage.learning_bounds = True
    try:
        yield from _learn_bounds(stage, version)
    finally:
        stage.learning_bounds = False


def _learn_bounds(stage: ReplayContext, version: int) -> Coroutine:
    """Ask leader by leader; again where one was moving, since a position guessed without bounds may be none."""
    originals = {stage.names.topic(name): name for name in stage.loaded.source.topics}
    known = stage.topology.topics
    deadline = stage.now_ns() + LEADERLESS_NS
    for timestamp in (EARLIEST, LATEST):
        missing = {(name, each) for name in originals if name in known for each in known[name].leaders}
        while missing:
            answers = yield from _ask_bounds(stage, version, timestamp, missing)
            passing = False
            for answer in answers:
                for topic in answer.body.get("topics") or ():
                    for each in topic["partitions"]:
                        passing |= each["error_code"] in MOVING
                        if each["error_code"] or version < 1:
                            continue
                        bounds = (each["offset"], -1) if timestamp == EARLIEST else (-1, each["offset"])
                        stage.positions.target_bounds(
                            (originals[topic["name"]], each["partition_index"]), *bounds
                        )
                        missing.discard((topic["name"], each["partition_index"]))
            if not passing or stage.now_ns() >= deadline:
                break
            yield Pause(2 * AGAIN_NS)
            yield from stage.learn_topics(sorted({name for name, _ in missing}))


def _ask_bounds(
    stage: ReplayContext, version: int, timestamp: int, wanted: set[tuple[str, int]]
) -> Coroutine:
    topics: dict[str, list[Tree]] = {}
    for name, partition in sorted(wanted):
        topics.setdefault(name, []).append({"partition_index": partition, "timestamp": timestamp})
    body: Tree = {
        "replica_id": -1,
        "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
    }
    cuts = split(ApiKey.LIST_OFFSETS, body, stage.topology, stage.names)
    return (
        yield Ask(
            tuple(Part(ApiKey.LIST_OFFSETS, version, each, node) for node, each in cuts), synthetic=True
        )
    )


def _metadata_version(stage: ReplayContext) -> int:
    return chosen_version(ApiKey.METADATA, 5, stage.topology.versions.get(ApiKey.METADATA)) or 1


def _learn_settings(stage: ReplayContext, target: Target) -> Coroutine:
    topics = sorted(stage.topology.topics)
    version = chosen_version(ApiKey.DESCRIBE_CONFIGS, 1, stage.topology.versions.get(ApiKey.DESCRIBE_CONFIGS))
    if version is None or not topics:
        return
    resources = [
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": list(SETTINGS)}
        for name in topics
    ]
    said = (yield from ask_one(Part(ApiKey.DESCRIBE_CONFIGS, version, {"resources": resources}))).body
    for result in said.get("results") or ():
        if not result["error_code"]:
            target.settings[result["resource_name"]] = {
                each["name"]: each["value"] for each in result["configs"]
            }
