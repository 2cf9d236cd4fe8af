"""The cluster that was captured, as its responses describe it: ids, addresses, topics, partitions.

In: every request with its response, in the order of the capture. Out: a `CapturedCluster`. Its ids and
addresses keep a replay away from it (see `safety`); its topics are those that a target needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.rewrite.names import Names, Tree

DESCRIBING = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.FIND_COORDINATOR})
"""The requests whose responses name brokers."""

PARTITIONS_IN_RESPONSE: Mapping[int, tuple[str, str]] = {
    ApiKey.FETCH: ("responses", "topic"),
    ApiKey.LIST_OFFSETS: ("topics", "name"),
    ApiKey.OFFSET_COMMIT: ("topics", "name"),
}
"""API -> the fields with topics, and with a topic's name, of responses that have an error for each partition.
"""


class CapturedTopic(NamedTuple):
    """A topic as the capture describes it."""

    partitions: int
    replicas: int  # 0: the capture does not say


@dataclass(slots=True)
class CapturedCluster:
    """Facts of the capture about its cluster."""

    cluster_ids: set[str] = field(default_factory=set)
    addresses: set[tuple[str, int]] = field(default_factory=set)
    topics: dict[str, CapturedTopic] = field(default_factory=dict)
    mechanisms: set[str] = field(default_factory=set)  # of SASL

    def learn_response(self, key: int, body: Tree) -> None:
        """Learn from the response to a request that describes the cluster."""
        if key not in DESCRIBING:
            return
        if body.get("cluster_id"):
            self.cluster_ids.add(body["cluster_id"])
        for node in (*(body.get("brokers") or ()), *(body.get("coordinators") or ()), body):
            if node.get("host") and node.get("port", -1) > 0:
                self.addresses.add((node["host"], node["port"]))
        for topic in body.get("topics") or ():
            if topic.get("name") and not topic["error_code"]:
                replicas = min((len(each["replica_nodes"]) for each in topic["partitions"]), default=0)
                known = self.topics.get(topic["name"], CapturedTopic(0, replicas))
                partitions = max(known.partitions, len(topic["partitions"]))
                self.topics[topic["name"]] = CapturedTopic(partitions, replicas)

    def learn_partitions(self, key: int, body: Tree, names: Names) -> None:
        """Learn from a response for partitions.

        A partition that is used without an error exists, even if no metadata names it.
        """
        if key not in PARTITIONS_IN_RESPONSE:
            return
        topics, name = PARTITIONS_IN_RESPONSE[key]
        for topic in body.get(topics) or ():
            for each in topic["partitions"]:
                if not each["error_code"]:
                    self.add_partition((names.captured_topic(topic, name) or "", each["partition_index"]))

    def add_topic(self, name: str) -> None:
        """Note that a topic is used."""
        self.topics.setdefault(name, CapturedTopic(0, 0))

    def add_partition(self, partition: TopicPartition) -> None:
        """Note that a partition exists."""
        topic, number = partition
        known = self.topics.get(topic, CapturedTopic(0, 0))
        if topic and number >= known.partitions:
            self.topics[topic] = known._replace(partitions=number + 1)
