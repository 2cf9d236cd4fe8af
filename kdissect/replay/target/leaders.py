"""Who leads each partition of the target: asked again when a response says that a leader moved.

The answers are kept in the `TargetCluster`. One refresh runs at a time. A request that waits for a partition
without a leader, or without the replicas that a write needs, waits no longer than the first that did: a
partition that stays so delays requests once.
"""

from collections.abc import Iterable, Sequence

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import LEADER_ERRORS
from kdissect.replay.effects import CONTROL, Answer, Coroutine, Part, ask_one, pause, spawn
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.pass_state import PassNotes, RunClock
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.target.cluster import OWN_CLIENT_ID, TargetCluster

LEAST_METADATA = 4  # Metadata versions below it create the topics that are asked for
NEWEST_METADATA = 12
REFRESH_NS = 50_000_000  # before leaders are asked for again


class SharedDeadlines:
    """Until when partitions are waited for: each from the first request that had to wait, for all of them."""

    def __init__(self, clock: RunClock, deadline_s: float) -> None:
        self._clock, self._deadline_s = clock, deadline_s
        self._ends_ns: dict[TopicPartition, int] = {}

    def pending(self, partition: TopicPartition) -> bool:
        """Return whether a partition is to be waited for still; the first question begins its time."""
        end_ns = self._ends_ns.setdefault(partition, self._clock.deadline_ns(self._deadline_s))
        return self._clock.now_ns() < end_ns

    def clear(self, partition: TopicPartition) -> None:
        """Note that a partition need not be waited for."""
        if self._ends_ns:
            self._ends_ns.pop(partition, None)


class Leaders:
    """Questions about leaders, and how long a missing one is waited for."""

    def __init__(
        self, cluster: TargetCluster, names: Names, clock: RunClock, notes: PassNotes, deadline_s: float
    ) -> None:
        self._cluster, self._names, self._notes = cluster, names, notes
        self.elections = SharedDeadlines(clock, deadline_s)  # of partitions without a leader
        self.writes = SharedDeadlines(clock, deadline_s)  # of partitions that take no writes
        self._refreshing = False

    def metadata_request(self, topics: Iterable[str]) -> tuple[int, Tree]:
        """Return version and body of a Metadata request for topics, which creates none."""
        spoken = self._cluster.versions.get(ApiKey.METADATA)
        version = chosen_version(ApiKey.METADATA, NEWEST_METADATA, spoken) or LEAST_METADATA
        return version, {"topics": [{"name": name} for name in topics], "allow_auto_topic_creation": False}

    def learn_topics(self, topics: Iterable[str]) -> Coroutine[Answer]:
        """Ask one node for topics by their names on the target, and take the answer in."""
        version, body = self.metadata_request(topics)
        answer = yield from ask_one(Part(ApiKey.METADATA, version, body, client_id=OWN_CLIENT_ID))
        if answer.body:
            self._cluster.learn_metadata(answer.body, self._names)
        return answer

    def refresh(self) -> Coroutine[None]:
        """Learn all leaders anew, unless that is under way."""
        if self._refreshing:
            return
        self._refreshing = True
        self._notes.counts["metadata refreshed"] += 1
        try:
            yield from pause(REFRESH_NS)
            yield from self.learn_topics(sorted(self._cluster.topics))
        finally:
            self._refreshing = False

    def moved(self, answers: Sequence[Answer]) -> bool:
        """Return whether an answer says that a leader has moved."""
        return any(answer.errors and not LEADER_ERRORS.isdisjoint(answer.errors) for answer in answers)

    def refresh_if_moved(self, answers: Sequence[Answer]) -> Coroutine[None]:
        """Learn leaders anew, beside the handler, if an answer says that one has moved."""
        if self.moved(answers):
            yield from spawn(self.refresh(), CONTROL)
