"""Dependencies of share groups (KIP-932): where a group begins to read, and what its fetches were handed out.

In: requests with their responses, in the order of the capture. Out:

- `begins`: the fetches by which groups began to read a partition. A group reads from the end that the log has
  when the leader first looks for it (share.auto.offset.reset is latest, unless the group says otherwise).
  The leader reads the state of the group before that, and answers fetches in the meantime, but leaves the
  partition out of its responses. So a group has begun with the first response that lists the partition,
  with records or without. Records that were written later belong to the group. If they are written earlier,
  no member ever sees them.
- `acquired`: the records that the captured response to a fetch handed out. They were written before it.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_fetch_sessions import FINAL_EPOCH
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Names, Tree


class GroupBegin(NamedTuple):
    """The first fetch of a group whose response lists a partition."""

    answered_ns: int
    request: int


class AcquiredRecords(NamedTuple):
    """Records of a partition that a captured response handed out."""

    following: int  # the offset behind the last one
    records: int


Acquired: TypeAlias = Mapping[TopicPartition, AcquiredRecords]
NOTHING_ACQUIRED: Acquired = {}


class CapturedShares:
    """Learns from all requests that will be sent, in order."""

    def __init__(self) -> None:
        self._begins: dict[TopicPartition, dict[str, GroupBegin]] = defaultdict(dict)  # by group
        self._acquired: dict[int, Acquired] = {}

    @property
    def has_begins(self) -> bool:
        """Return whether any group began to read a partition."""
        return bool(self._begins)

    def begins(self, partition: TopicPartition, before_ns: int) -> list[int]:
        """Return the fetches by which groups began to read a partition, answered before a captured time."""
        groups = self._begins.get(partition)
        if groups is None:
            return []
        return [begin.request for begin in groups.values() if begin.answered_ns <= before_ns]

    def is_begin(self, index: int, partition: TopicPartition) -> bool:
        """Return whether a group began to read a partition with a fetch."""
        groups = self._begins.get(partition) or {}
        return any(begin.request == index for begin in groups.values())

    def acquired(self, index: int) -> Acquired:
        """Return what the captured response to a fetch handed out."""
        return self._acquired.get(index, NOTHING_ACQUIRED)

    def take(self, request: Request, body: Tree, response: Tree, names: Names) -> set[str]:
        """Learn from a request and its response, and return the topics that a fetch is about."""
        if request.key != ApiKey.SHARE_FETCH or body["share_session_epoch"] == FINAL_EPOCH:
            return set()
        asked, answered = (
            _partitions(topics, names) for topics in (body.get("topics"), response.get("responses"))
        )
        for partition, each in answered.items():
            if not each["error_code"]:
                self._add_begin(partition, body["group_id"], request)
        acquired = {
            partition: AcquiredRecords(
                max(batch["last_offset"] for batch in each["acquired_records"]) + 1,
                sum(batch["last_offset"] - batch["first_offset"] + 1 for batch in each["acquired_records"]),
            )
            for partition, each in answered.items()
            if each.get("acquired_records")
        }
        if acquired:
            self._acquired[request.index] = acquired
        return {topic for topic, _ in (*asked, *answered)}

    def _add_begin(self, partition: TopicPartition, group: str, request: Request) -> None:
        begin = GroupBegin(request.answered_ns or 0, request.index)
        known = self._begins[partition].get(group)
        if known is None or begin < known:
            self._begins[partition][group] = begin


def _partitions(topics: list[Tree] | None, names: Names) -> dict[TopicPartition, Tree]:
    """Return the partitions of a message whose topics have names, with their fields."""
    found: dict[TopicPartition, Tree] = {}
    for topic in topics or ():
        name = names.captured_topic(topic)
        if name is not None:
            found |= {(name, each["partition_index"]): each for each in topic["partitions"]}
    return found
