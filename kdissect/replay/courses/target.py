"""Questions that change nothing: what the target is, asked before anything is planned or sent.

ApiVersions (by every link's handshake), Metadata, DescribeCluster and DescribeConfigs are all that a plan sends.
"""

from dataclasses import dataclass, field

from kdissect.replay.courses.stage import AGAIN_NS, LEADER_ERRORS, Stage
from kdissect.replay.loading.rails import check_cluster
from kdissect.replay.mapping.topology import Refusing, split
from kdissect.replay.rewriting.roles import Tree
from kdissect.replay.rewriting.versions import chosen_version
from kdissect.replay.steps import Answer, Ask, Errand, Part, Pause, ask_one

METADATA, DESCRIBE_CLUSTER, DESCRIBE_CONFIGS, LIST_OFFSETS = 3, 60, 32, 2
EARLIEST, LATEST = -2, -1
MOVING = LEADER_ERRORS | {78}  # OFFSET_NOT_AVAILABLE: of a leader that is new
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
    brokers: int = 0
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)  # topic -> setting -> value


def learn_target(stage: Stage) -> Errand:
    """Ask the target; give a `Target`. Raises Refusing where a rail holds."""
    wanted = sorted({stage.names.topic(name) for name in stage.loaded.source.topics})
    answer: Answer = yield from stage.learn_topics([])
    if not answer.body:
        raise Refusing(f"the target does not answer: {answer.bucket}")
    topology = stage.topology
    target = Target(topology.cluster_id, len(topology.nodes))
    if DESCRIBE_CLUSTER in topology.versions:
        version = chosen_version(DESCRIBE_CLUSTER, 0, topology.versions[DESCRIBE_CLUSTER]) or 0
        said = (yield from ask_one(Part(DESCRIBE_CLUSTER, version, {}))).body
        if said and not said["error_code"]:
            for broker in said["brokers"]:
                topology.admit((broker["host"], broker["port"]))
            target.cluster_id = said["cluster_id"]
    check_cluster(stage.settings, stage.loaded.source, target.cluster_id)
    if wanted:
        yield from stage.learn_topics(wanted)
    for node in sorted(topology.nodes):
        yield from ask_one(Part(METADATA, _metadata_version(stage), {"topics": []}, node))
    yield from _learn_settings(stage, target)
    return target


def learn_bounds(stage: Stage) -> Errand:
    """Ask where each log begins and ends, so that positions can be found in it. Part of a run, not of a plan."""
    version = chosen_version(LIST_OFFSETS, 2, stage.topology.versions.get(LIST_OFFSETS))
    if version is None or stage.learning_bounds:
        return
    stage.learning_bounds = True
    try:
        yield from _learn_bounds(stage, version)
    finally:
        stage.learning_bounds = False


def _learn_bounds(stage: Stage, version: int) -> Errand:
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


def _ask_bounds(stage: Stage, version: int, timestamp: int, wanted: set[tuple[str, int]]) -> Errand:
    topics: dict[str, list[Tree]] = {}
    for name, partition in sorted(wanted):
        topics.setdefault(name, []).append({"partition_index": partition, "timestamp": timestamp})
    body: Tree = {
        "replica_id": -1,
        "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
    }
    cuts = split(LIST_OFFSETS, body, stage.topology, stage.names)
    return (yield Ask(tuple(Part(LIST_OFFSETS, version, each, node) for node, each in cuts), synthetic=True))


def _metadata_version(stage: Stage) -> int:
    return chosen_version(METADATA, 5, stage.topology.versions.get(METADATA)) or 1


def _learn_settings(stage: Stage, target: Target) -> Errand:
    topics = sorted(stage.topology.topics)
    version = chosen_version(DESCRIBE_CONFIGS, 1, stage.topology.versions.get(DESCRIBE_CONFIGS))
    if version is None or not topics:
        return
    resources = [
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": list(SETTINGS)}
        for name in topics
    ]
    said = (yield from ask_one(Part(DESCRIBE_CONFIGS, version, {"resources": resources}))).body
    for result in said.get("results") or ():
        if not result["error_code"]:
            target.settings[result["resource_name"]] = {
                each["name"]: each["value"] for each in result["configs"]
            }
