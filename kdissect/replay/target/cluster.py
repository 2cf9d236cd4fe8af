"""The target as it says it is: nodes, leaders, topic ids, versions; and how a request is cut along its leaders.

Addresses are checked when they are learnt, before anything connects to them: a cluster restored from a copy may advertise the
addresses of the original.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from kdissect.errors import UserError
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.effects import ANY
from kdissect.replay.rewrite.roles import (
    ZERO_ID,
    Names,
    Tree,
)
from kdissect.replay.rewrite.versions import Range, true_ranges
from kdissect.replay.settings import Address


class AbortRun(UserError):
    """A rail holds: the run must not go on. The message is one sentence."""


class Topic(NamedTuple):
    """One topic of the target."""

    identity: bytes
    leaders: dict[int, int]  # partition -> node, -1 while there is none
    replicas: int
    internal: bool
    # Partition -> epoch of its leader, where the target tells.
    epochs: Mapping[int, int] = MappingProxyType({})


class Cut(NamedTuple):
    """Where the partitions of a request stand: a list of topics, the partitions in each, the number of each partition."""

    topics: str
    name: str
    partitions: str
    number: str


CUTS: dict[int, Cut] = {
    ApiKey.PRODUCE: Cut("topic_data", "name", "partition_data", "index"),
    ApiKey.FETCH: Cut("topics", "topic", "partitions", "partition"),
    ApiKey.LIST_OFFSETS: Cut("topics", "name", "partitions", "partition_index"),
    ApiKey.DELETE_RECORDS: Cut("topics", "name", "partitions", "partition_index"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Cut("topics", "topic", "partitions", "partition"),
    ApiKey.DESCRIBE_PRODUCERS: Cut("topics", "name", "partition_indexes", ""),
}


@dataclass(slots=True)
class TargetCluster:
    """What is known of the target by now; `turn` counts how often leaders were learnt anew."""

    admit: Callable[[Address], None]  # raises for an address that must not be connected to
    admit_peer: Callable[[Address], None]  # raises for where a connection must not have led to
    cluster_id: str | None = None
    nodes: dict[int, Address] = field(default_factory=dict)
    racks: dict[int, str | None] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    versions: dict[int, Range] = field(default_factory=dict)  # what all nodes speak
    features: dict[str, int] = field(default_factory=dict)
    coordinators: dict[tuple[int, str], int] = field(default_factory=dict)
    turn: int = 0

    def learn_metadata(self, body: Tree, names: Names) -> None:
        """Take in a Metadata answer; one without nodes is of a broker that knows nothing yet. Raises what `admit` raises."""
        if not body["brokers"]:
            return
        nodes = {broker["node_id"]: (broker["host"], broker["port"]) for broker in body["brokers"]}
        for address in nodes.values():
            self.admit(address)
        self.nodes = nodes
        self.racks = {broker["node_id"]: broker.get("rack") for broker in body["brokers"]}
        self.cluster_id = body.get("cluster_id") or self.cluster_id
        known = leaders_in(body)
        for topic in body["topics"]:
            if topic.get("name") not in known:
                continue
            leaders = known[topic["name"]]
            replicas = min((len(each["replica_nodes"]) for each in topic["partitions"]), default=0)
            identity = topic.get("topic_id", ZERO_ID)
            epochs = {each["partition_index"]: each.get("leader_epoch", -1) for each in topic["partitions"]}
            internal = bool(topic.get("is_internal"))
            self.topics[topic["name"]] = Topic(identity, leaders, replicas, internal, epochs)
            names.learn(topic["name"], identity)
        self.turn += 1

    def learn_versions(self, body: Tree) -> None:
        """Take in an ApiVersions answer: what one node speaks limits what is sent to all."""
        said = {each["api_key"]: (each["min_version"], each["max_version"]) for each in body["api_keys"]}
        ranges = true_ranges(said)
        if self.versions:
            common = self.versions.keys() & ranges.keys()
            ranges = {
                key: (max(self.versions[key][0], ranges[key][0]), min(self.versions[key][1], ranges[key][1]))
                for key in common
            }
        self.versions = {key: (low, high) for key, (low, high) in ranges.items() if low <= high}
        for feature in body.get("finalized_features") or ():
            self.features[feature["name"]] = feature["max_version_level"]

    @property
    def second_generation(self) -> bool:
        """Whether producing in a transaction adds the partition to it (KIP-890, transaction.version 2)."""
        return self.features.get("transaction.version", 0) >= 2

    def leader(self, topic: str, partition: int) -> int:
        """Give the node that leads a partition; ANY if there is none or it is not known."""
        known = self.topics.get(topic)
        node = known.leaders.get(partition, ANY) if known else ANY
        return node if node in self.nodes else ANY


def leaders_in(body: Tree) -> dict[str, dict[int, int]]:
    """Give the leader of each partition of each topic that a Metadata answer has; -1 while there is none."""
    return {
        topic["name"]: {each["partition_index"]: each["leader_id"] for each in topic["partitions"]}
        for topic in body["topics"]
        if not topic["error_code"] and topic.get("name")
    }


def split(key: int, body: Tree, topology: TargetCluster, names: Names) -> list[tuple[int, Tree]]:
    """Cut a request along the leaders of its partitions: (node, body) for each, in the order in which they come up."""
    cut = CUTS[key]
    by_node: dict[int, list[Tree]] = {}
    for topic in body.get(cut.topics) or ():
        name = topic.get(cut.name) or names.name_of(topic.get("topic_id", ZERO_ID)) or ""
        parts: dict[int, list[object]] = {}
        for partition in topic[cut.partitions]:
            number = partition[cut.number] if cut.number else partition
            parts.setdefault(topology.leader(name, number), []).append(partition)
        for node, partitions in parts.items():
            by_node.setdefault(node, []).append(topic | {cut.partitions: partitions})
    if len(by_node) < 2:
        return [(next(iter(by_node), ANY), body)]
    return [(node, body | {cut.topics: topics}) for node, topics in by_node.items()]
