"""Questions that change nothing: what the target is, asked before anything is planned or sent.

ApiVersions (by every connection's handshake), Metadata, DescribeCluster and DescribeConfigs are all that a
plan sends. Every node is asked for the topics: metadata reaches each of them at its own time (KIP-500), so
one may not know yet what another one created. A run also asks where each log begins and ends, so that
positions can be found in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kdissect.protocol.visitor import BROKER_RESOURCE, TOPIC_RESOURCE
from kdissect.replay.effects import Answer, Coroutine, Part, ask, ask_one, pause
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.pass_state import RunClock
from kdissect.replay.refused_sessions import LONGEST_SESSION, SHORTEST_SESSION
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.safety import AbortRun, check_cluster
from kdissect.replay.settings import Groups, ReplaySettings
from kdissect.replay.target.cluster import TargetCluster, leaders_in, split
from kdissect.replay.target.leaders import Leaders
from kdissect.replay.target.offsets import Positions

EARLIEST, LATEST = -2, -1  # ListOffsets: instead of a time
LEADER_UNSETTLED = LEADER_ERRORS | {ErrorCode.OFFSET_NOT_AVAILABLE}  # the latter of a new leader
LEADERLESS_S = 10.0  # how long leaders may be looked for
AGAIN_NS = 100_000_000  # before they are looked for again
TOPIC_SETTINGS = (
    "max.message.bytes",
    "min.insync.replicas",
    "message.timestamp.type",
    "cleanup.policy",
    "retention.ms",
)


@dataclass(slots=True)
class TargetDescription:
    """Facts of a target about itself, beside what `TargetCluster` has."""

    cluster_id: str | None = None
    unsettled: list[str] = field(default_factory=list)  # topics that not every node knows with all leaders
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)  # topic -> setting -> value
    session_bounds: dict[str, int] = field(default_factory=dict)  # setting -> ms, the strictest of all nodes


class Discovery:
    """The questions of one pass. The answers go to the cluster, the names and the positions."""

    def __init__(
        self,
        settings: ReplaySettings,
        source: CapturedCluster,
        cluster: TargetCluster,
        names: Names,
        clock: RunClock,
        leaders: Leaders,
        positions: Positions,
    ) -> None:
        self._settings, self._source = settings, source
        self._cluster, self._names, self._clock = cluster, names, clock
        self._leaders, self._positions = leaders, positions
        self._learning_bounds = False

    def learn(self) -> Coroutine[TargetDescription]:
        """Return what the target says about itself. Raise AbortRun if a safety rule forbids to use it."""
        answer = yield from self._leaders.learn_topics([])
        if not answer.body:
            raise AbortRun(f"the target does not answer: {answer.bucket}")
        description = TargetDescription((yield from self._cluster_id()))
        check_cluster(self._settings, self._source, description.cluster_id)
        spoken = self._cluster.versions.get(ApiKey.METADATA)
        version = chosen_version(ApiKey.METADATA, 5, spoken) or 1
        nodes = sorted(self._cluster.nodes)  # what all of them speak is known when all have answered
        yield from ask(
            (Part(ApiKey.METADATA, version, {"topics": []}, node) for node in nodes), synthetic=True
        )
        wanted = sorted({self._names.topic(name) for name in self._source.topics})
        description.unsettled = yield from self.until_settled(wanted)
        description.settings = yield from self._topic_settings()
        if self._settings.groups is Groups.FULL:
            description.session_bounds = yield from self._session_bounds()
        return description

    def until_settled(
        self, topics: Sequence[str], created: Mapping[str, int] = MappingProxyType({})
    ) -> Coroutine[list[str]]:
        """Ask every node for topics until all name the same leaders; return the topics that took too long.

        A topic that no node knows is not on the target. One that was `created`, or got partitions, is waited
        for, until it has that number of them.
        """
        deadline_ns = self._clock.deadline_ns(LEADERLESS_S)
        while topics:
            version, body = self._leaders.metadata_request(topics)
            nodes = sorted(self._cluster.nodes)
            parts = [Part(ApiKey.METADATA, version, body, node) for node in nodes]
            answers = yield from ask(parts, synthetic=True)
            views = sorted((each.body for each in answers if each.body), key=_number_of_leaders)
            for view in views:  # the one with most leaders comes last and stays
                self._cluster.learn_metadata(view, self._names)
            known = [leaders_in(view) for view in views]
            unsettled = [
                name
                for name in topics
                if not _is_settled([view.get(name) for view in known], created.get(name, 0))
            ]
            if not unsettled or self._clock.now_ns() >= deadline_ns:
                return unsettled
            yield from pause(AGAIN_NS)
        return []

    def learn_bounds(self) -> Coroutine[None]:
        """Ask where each log begins and ends, unless that is under way. Part of a run, not of a plan."""
        version = chosen_version(ApiKey.LIST_OFFSETS, 2, self._cluster.versions.get(ApiKey.LIST_OFFSETS))
        if version is None or self._learning_bounds:
            return
        self._learning_bounds = True
        try:
            deadline_ns = self._clock.deadline_ns(LEADERLESS_S)
            for timestamp in (EARLIEST, LATEST):
                yield from self._learn_bound(version, timestamp, deadline_ns)
        finally:
            self._learning_bounds = False

    def _cluster_id(self) -> Coroutine[str | None]:
        """Return the cluster id that DescribeCluster tells, else that of the metadata."""
        spoken = self._cluster.versions.get(ApiKey.DESCRIBE_CLUSTER)
        if spoken is None:
            return self._cluster.cluster_id
        version = chosen_version(ApiKey.DESCRIBE_CLUSTER, 0, spoken) or 0
        response = (yield from ask_one(Part(ApiKey.DESCRIBE_CLUSTER, version, {}))).body
        if not response or response["error_code"]:
            return self._cluster.cluster_id
        for broker in response["brokers"]:
            self._cluster.admission.admit((broker["host"], broker["port"]))
        cluster_id: str | None = response["cluster_id"]
        return cluster_id

    def _topic_settings(self) -> Coroutine[dict[str, dict[str, str | None]]]:
        topics = sorted(self._cluster.topics)
        spoken = self._cluster.versions.get(ApiKey.DESCRIBE_CONFIGS)
        version = chosen_version(ApiKey.DESCRIBE_CONFIGS, 1, spoken)
        if version is None or not topics:
            return {}
        resources = [
            {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configuration_keys": [*TOPIC_SETTINGS]}
            for name in topics
        ]
        part = Part(ApiKey.DESCRIBE_CONFIGS, version, {"resources": resources})
        response = (yield from ask_one(part)).body
        return {
            result["resource_name"]: {each["name"]: each["value"] for each in result["configs"]}
            for result in response.get("results") or ()
            if not result["error_code"]
        }

    def _session_bounds(self) -> Coroutine[dict[str, int]]:
        """Return which session timeouts the nodes take; none of those that do not tell it."""
        spoken = self._cluster.versions.get(ApiKey.DESCRIBE_CONFIGS)
        version = chosen_version(ApiKey.DESCRIBE_CONFIGS, 1, spoken)
        if version is None:
            return {}
        keys, parts = [SHORTEST_SESSION, LONGEST_SESSION], []
        for node in sorted(self._cluster.nodes):  # a broker tells only its own settings
            named = {"resource_type": BROKER_RESOURCE, "resource_name": str(node), "configuration_keys": keys}
            parts.append(Part(ApiKey.DESCRIBE_CONFIGS, version, {"resources": [named]}, node))
        answers = yield from ask(parts, synthetic=True)
        told: dict[str, list[int]] = {}
        for result in (each for answer in answers for each in answer.body.get("results") or ()):
            for setting in result["configs"] or ():
                if setting["name"] in keys and (setting["value"] or "").isdecimal():
                    told.setdefault(setting["name"], []).append(int(setting["value"]))
        strictest = {SHORTEST_SESSION: max, LONGEST_SESSION: min}
        return {name: strictest[name](values) for name, values in told.items()}

    def _learn_bound(self, version: int, timestamp: int, deadline_ns: int) -> Coroutine[None]:
        """Ask leader by leader, and again if one was moving.

        A position that is guessed without bounds may not exist.
        """
        captured = {self._names.topic(name): name for name in self._source.topics}
        topics = self._cluster.topics
        missing = {(name, each) for name in captured if name in topics for each in topics[name].leaders}
        while missing:
            answers = yield from self._ask_bounds(version, timestamp, missing)
            moving = False
            for topic in (topic for answer in answers for topic in answer.body.get("topics") or ()):
                for each in topic["partitions"]:
                    moving |= each["error_code"] in LEADER_UNSETTLED
                    if each["error_code"] or version < 1 or topic["name"] not in captured:
                        continue
                    partition = captured[topic["name"]], each["partition_index"]
                    if timestamp == EARLIEST:
                        self._positions.set_bounds(partition, start=each["offset"])
                    else:
                        self._positions.set_bounds(partition, end=each["offset"])
                    missing.discard((topic["name"], each["partition_index"]))
            if not moving or self._clock.now_ns() >= deadline_ns:
                return
            yield from pause(AGAIN_NS)
            yield from self._leaders.learn_topics(sorted({name for name, _ in missing}))

    def _ask_bounds(
        self, version: int, timestamp: int, wanted: Iterable[TopicPartition]
    ) -> Coroutine[list[Answer]]:
        topics: dict[str, list[Tree]] = {}
        for name, partition in sorted(wanted):
            topics.setdefault(name, []).append({"partition_index": partition, "timestamp": timestamp})
        body: Tree = {
            "replica_id": -1,
            "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
        }
        bodies = split(ApiKey.LIST_OFFSETS, body, self._cluster, self._names)
        parts = [Part(ApiKey.LIST_OFFSETS, version, each, node) for node, each in bodies]
        return (yield from ask(parts, synthetic=True))


def _number_of_leaders(view: Tree) -> int:
    return sum(leader >= 0 for leaders in leaders_in(view).values() for leader in leaders.values())


def _is_settled(views: Sequence[dict[int, int] | None], least: int) -> bool:
    """Return whether all nodes say the same of a topic: `least` partitions or more, each with a leader."""
    first = next((view for view in views if view), {})
    if len(first) < max(least, 1):
        return not (first or least)
    return all(view == first for view in views) and min(first.values()) >= 0
