"""What the members of groups subscribe to, pieced together from all that a capture tells.

In: every request with its response, in the order of the capture. Out: for each member the topics that it
subscribes to, and a JoinGroup of its group. Joins and full heartbeats tell the topics of a group.
Assignments, descriptions and commits tell those of a member. If nothing else is known, the topics that its
client fetches are taken.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_embedded
from kdissect.replay.identifiers import ClientKey
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Names, Tree

CONSUMERS = "consumer"  # the protocol type of groups that are replayed
STREAMS = "streams"
DESCRIPTIONS = frozenset(
    {ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE}
)


@dataclass(slots=True)
class GroupSubscription:
    """What is known of one group."""

    topics: set[str] = field(default_factory=set)  # of the group as a whole
    by_member: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    joins: dict[str, tuple[int, Tree]] = field(default_factory=dict)  # by member id, the first one also by ""
    foreign: str | None = None  # its protocol type, if that is not the one of consumers

    def topics_of(self, member: str) -> set[str]:
        """Return what a member subscribes to, else what others of its group do."""
        return self.by_member[member] | self.topics or set[str]().union(*self.by_member.values())

    def join_of(self, member: str) -> tuple[int, Tree] | None:
        """Return version and body of a member's JoinGroup, else of another one of its group."""
        return self.joins.get(member) or self.joins.get("")


class GroupSubscriptions:
    """The groups of a capture."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._groups: dict[str, GroupSubscription] = defaultdict(GroupSubscription)
        self._fetched: dict[ClientKey, set[str]] = defaultdict(set)

    def group(self, name: str) -> GroupSubscription:
        """Return what is known of a group."""
        return self._groups[name]

    def fetched(self, client: ClientKey) -> set[str]:
        """Return the topics that a client fetches."""
        return self._fetched[client]

    def learn(self, request: Request, body: Tree, response: Tree, client: ClientKey) -> None:
        """Learn from a request; the response is empty if there is none."""
        key, names = request.key, self._names
        if key == ApiKey.FETCH:
            self._fetched[client].update(_topics(names, body["topics"], "topic"))
        elif key in DESCRIPTIONS:
            self._learn_descriptions(response)
        elif body.get("group_id"):
            group = self._groups[body["group_id"]]
            protocol = STREAMS if key == ApiKey.STREAMS_GROUP_HEARTBEAT else body.get("protocol_type")
            if protocol and protocol != CONSUMERS:
                group.foreign = protocol
            elif key in LEARNERS:
                LEARNERS[key](group, names, request.version or 0, body, response)

    def _learn_descriptions(self, response: Tree) -> None:
        for description in response.get("groups") or ():
            group = self._groups[description["group_id"]]
            protocol = description.get("protocol_type")
            if protocol and protocol != CONSUMERS:
                group.foreign = protocol
                continue
            for member in description["members"]:
                own = group.by_member[member["member_id"]]
                own.update(member.get("subscribed_topic_names") or ())
                own.update(_subscribed(member.get("member_metadata")))
                own.update(_assigned(member.get("member_assignment")))
                assignment = member.get("assignment") or {}
                own.update(each["topic_name"] for each in assignment.get("topic_partitions") or ())


def _learn_join(group: GroupSubscription, _names: Names, version: int, body: Tree, response: Tree) -> None:
    for member in {body["member_id"], response.get("member_id") or ""}:
        group.joins.setdefault(member, (version, body))
    group.joins.setdefault("", (version, body))
    for protocol in body["protocols"]:
        group.topics.update(_subscribed(protocol["metadata"]))


def _learn_sync(group: GroupSubscription, _names: Names, _version: int, body: Tree, response: Tree) -> None:
    group.by_member[body["member_id"]].update(_assigned(response.get("assignment")))
    for each in body["assignments"]:
        group.by_member[each["member_id"]].update(_assigned(each["assignment"]))


def _learn_heartbeat(
    group: GroupSubscription, names: Names, _version: int, body: Tree, response: Tree
) -> None:
    group.topics.update(body["subscribed_topic_names"] or ())
    owned = body.get("topic_partitions") or ()
    given = (response.get("assignment") or {}).get("topic_partitions") or ()
    group.by_member[body["member_id"]].update(_topics(names, (*owned, *given)))


def _learn_positions(
    group: GroupSubscription, names: Names, _version: int, body: Tree, _response: Tree
) -> None:
    group.by_member[body.get("member_id") or ""].update(_topics(names, body["topics"]))


LEARNERS: Mapping[int, Callable[[GroupSubscription, Names, int, Tree, Tree], None]] = {
    ApiKey.JOIN_GROUP: _learn_join,
    ApiKey.SYNC_GROUP: _learn_sync,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _learn_heartbeat,
    ApiKey.SHARE_GROUP_HEARTBEAT: _learn_heartbeat,
    ApiKey.OFFSET_COMMIT: _learn_positions,
    ApiKey.TXN_OFFSET_COMMIT: _learn_positions,
    ApiKey.SHARE_FETCH: _learn_positions,
    ApiKey.SHARE_ACKNOWLEDGE: _learn_positions,
}


def _topics(names: Names, topics: Iterable[Tree] | None, key: str = "name") -> list[str]:
    found = (names.captured_topic(each, key) for each in topics or ())
    return [each for each in found if each]


def _subscribed(metadata: bytes | None) -> list[str]:
    return list(_embedded("ConsumerProtocolSubscription", metadata).get("topics") or ())


def _assigned(assignment: bytes | None) -> list[str]:
    value = _embedded("ConsumerProtocolAssignment", assignment)
    return [each["topic"] for each in value.get("assigned_partitions") or ()]


def _embedded(message: str, data: bytes | None) -> Tree:
    """Return what members send each other; nothing if it cannot be decoded."""
    found = decode_embedded(message, data, strict=True) if data else None
    return found.value if found and not found.fault else {}
