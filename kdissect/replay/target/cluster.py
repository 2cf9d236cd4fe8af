"""The target as it describes itself (nodes, leaders, topic ids, versions), and requests split by leader.

Addresses are checked when they are learnt, before anything connects to them: a cluster restored from a copy
may advertise the addresses of the original. One `TargetCluster` serves the plan and all passes of a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.effects import ANY
from kdissect.replay.rewrite.names import ZERO_ID, Names, Tree
from kdissect.replay.rewrite.versions import Range, true_ranges
from kdissect.replay.safety import AbortRun, Admission
from kdissect.replay.settings import Address

OWN_CLIENT_ID = "kdissect-replay"  # in requests that stand for no captured one
MOST_NODES = 1000  # of a target: each may get connections
SECOND_GENERATION = 2  # transaction.version from which producing adds the partition (KIP-890)


class TargetTopic(NamedTuple):
    """One topic of the target."""

    identity: bytes
    leaders: dict[int, int]  # partition -> node, -1 while there is none
    replicas: int
    internal: bool
    epochs: Mapping[int, int] = MappingProxyType({})  # partition -> epoch of its leader, if the target tells


class PartitionFields(NamedTuple):
    """The fields in which a request names partitions: topics, a topic's name and partitions, a number."""

    topics: str
    name: str
    partitions: str
    number: str  # "" if partitions are bare numbers


PARTITIONS_OF: Mapping[int, PartitionFields] = {
    ApiKey.PRODUCE: PartitionFields("topic_data", "name", "partition_data", "index"),
    ApiKey.FETCH: PartitionFields("topics", "topic", "partitions", "partition"),
    ApiKey.LIST_OFFSETS: PartitionFields("topics", "name", "partitions", "partition_index"),
    ApiKey.DELETE_RECORDS: PartitionFields("topics", "name", "partitions", "partition_index"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: PartitionFields("topics", "topic", "partitions", "partition"),
    ApiKey.DESCRIBE_PRODUCERS: PartitionFields("topics", "name", "partition_indexes", ""),
}
"""The requests that only the leader of each partition answers."""


@dataclass(slots=True)
class TargetCluster:
    """Facts about the target by now; `turn` counts how often nodes, topics or leaders have changed."""

    admission: Admission
    cluster_id: str | None = None
    nodes: dict[int, Address] = field(default_factory=dict)
    racks: dict[int, str | None] = field(default_factory=dict)
    topics: dict[str, TargetTopic] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)  # topics that the login may not see, there or not
    versions: dict[int, Range] = field(default_factory=dict)  # what all nodes speak
    features: dict[str, int] = field(default_factory=dict)
    coordinators: dict[tuple[int, str], int] = field(default_factory=dict)  # (kind, name) -> node
    silent: dict[Address, str] = field(default_factory=dict)  # connected, but no handshake -> why
    turn: int = 0

    def learn_metadata(self, body: Tree, names: Names) -> None:
        """Learn from a Metadata response; one without nodes comes from a broker that knows nothing yet.

        Raise AbortRun for an address that must not be connected to.
        """
        if not body["brokers"]:
            return
        nodes = {broker["node_id"]: (broker["host"], broker["port"]) for broker in body["brokers"]}
        _check_number(len(nodes))
        for address in nodes.values():
            self.admission.admit(address)
        before = self.nodes, dict(self.topics)
        self.nodes = nodes
        self.racks = {broker["node_id"]: broker.get("rack") for broker in body["brokers"]}
        self.cluster_id = body.get("cluster_id") or self.cluster_id
        known = leaders_in(body)
        for topic in body["topics"]:
            if topic["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.get("name"):
                self.hidden.add(topic["name"])
            if topic.get("name") not in known:
                continue
            leaders = known[topic["name"]]
            replicas = min((len(each["replica_nodes"]) for each in topic["partitions"]), default=0)
            identity = topic.get("topic_id", ZERO_ID)
            epochs = {each["partition_index"]: each.get("leader_epoch", -1) for each in topic["partitions"]}
            internal = bool(topic.get("is_internal"))
            self.topics[topic["name"]] = TargetTopic(identity, leaders, replicas, internal, epochs)
            names.learn(topic["name"], identity)
        if (self.nodes, self.topics) != before:
            self.turn += 1

    def learn_versions(self, body: Tree) -> None:
        """Learn from an ApiVersions response: what one node speaks limits what is sent to all."""
        ranges = true_ranges(
            {each["api_key"]: (each["min_version"], each["max_version"]) for each in body["api_keys"]}
        )
        if self.versions:
            common = self.versions.keys() & ranges.keys()
            ranges = {
                key: (max(self.versions[key][0], ranges[key][0]), min(self.versions[key][1], ranges[key][1]))
                for key in common
            }
        self.versions = {key: (low, high) for key, (low, high) in ranges.items() if low <= high}
        for feature in body.get("finalized_features") or ():
            self.features[feature["name"]] = feature["max_version_level"]

    def learn_coordinator(self, kind: int, name: str, node: int, address: Address) -> None:
        """Note the coordinator of a group or a transactional id. Raise AbortRun as `learn_metadata` does."""
        self.admission.admit(address)
        _check_number(len(self.nodes.keys() | {node}))
        self.coordinators[kind, name] = node
        self.nodes.setdefault(node, address)

    @property
    def second_generation(self) -> bool:
        """Return whether Produce adds its partitions to the transaction (KIP-890, transaction.version 2)."""
        return self.features.get("transaction.version", 0) >= SECOND_GENERATION

    @property
    def most_replicas(self) -> int:
        """Return how many replicas a partition may have: one on each node."""
        return max(len(self.nodes), 1)

    def leader(self, topic: str, partition: int) -> int:
        """Return the node that leads a partition; ANY if there is none or it is not known."""
        known = self.topics.get(topic)
        node = known.leaders.get(partition, ANY) if known else ANY
        return node if node in self.nodes else ANY


def _check_number(nodes: int) -> None:
    if nodes > MOST_NODES:
        raise AbortRun(f"the target names {nodes:,} brokers; kdissect connects to at most {MOST_NODES:,}")


def leaders_in(body: Tree) -> dict[str, dict[int, int]]:
    """Return the leader of each partition of each topic in a Metadata response; -1 while there is none."""
    return {
        topic["name"]: {each["partition_index"]: each["leader_id"] for each in topic["partitions"]}
        for topic in body["topics"]
        if not topic["error_code"] and topic.get("name")
    }


def split(key: int, body: Tree, cluster: TargetCluster, names: Names) -> list[tuple[int, Tree]]:
    """Return (node, body) for each leader of a request's partitions, in the order in which they come up."""
    fields = PARTITIONS_OF[key]
    by_node: dict[int, list[Tree]] = {}
    for topic in body.get(fields.topics) or ():
        name = topic.get(fields.name) or names.name_of(topic.get("topic_id", ZERO_ID)) or ""
        by_leader: dict[int, list[object]] = {}
        for partition in topic[fields.partitions]:
            number = partition[fields.number] if fields.number else partition
            by_leader.setdefault(cluster.leader(name, number), []).append(partition)
        for node, partitions in by_leader.items():
            by_node.setdefault(node, []).append(topic | {fields.partitions: partitions})
    if len(by_node) < 2:
        return [(next(iter(by_node), ANY), body)]
    return [(node, body | {fields.topics: topics}) for node, topics in by_node.items()]
