"""Members that are older than what is sent: they heartbeat, commit or fetch, but never join in it.

In: every request with its response, in the order of the capture. Out: the `PriorMember`s that a run has to
let in before they can go on, and refusals for the requests of members about which the capture tells too
little.

A member that joins needs its topics (`GroupSubscriptions`). Joins and full heartbeats tell the topics of a
group. Assignments, descriptions and commits tell those of a member. If nothing else is known, the topics that
its client fetches are taken.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.protocol.codec.messages import decode_embedded
from kdissect.protocol.error_codes import NOT_A_MEMBER
from kdissect.replay.disposition import Disposition
from kdissect.replay.identifiers import ClientKey, MemberKey
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Names, Tree

CONSUMERS = "consumer"  # the protocol type of groups that are replayed
STREAMS = "streams"
DESCRIPTIONS = frozenset(
    {ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE}
)


@dataclass(slots=True)
class GroupSubscription:
    """Facts about one group."""

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


HEARTBEATS_THAT_JOIN = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT)
OF_SHARE_GROUPS = (ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
COMMIT_GENERATION = "generation_id_or_member_epoch"  # the field of all `OFFSET_COMMITS`
OF_MEMBERS = frozenset(
    {
        *OFFSET_COMMITS,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        *HEARTBEATS_THAT_JOIN,
        *OF_SHARE_GROUPS,
    }
)
TOGETHER_NS = (
    10_000_000_000  # members whose first requests lie within this time join at once: three heartbeats
)


@dataclass(slots=True)
class PriorMember:
    """One such member. Names are those of the capture."""

    group: str
    member: str
    connection: int  # of its first request
    first_ns: int
    client_id: str | None
    joins_by: int = ApiKey.JOIN_GROUP  # the API by which it once joined
    instance: str | None = None
    topics: tuple[str, ...] = ()
    template: tuple[int, Tree] | None = None  # version and body of a join of its group, best its own


class PriorMembers:
    """Learns from all requests in order, and knows at the end which members are older."""

    def __init__(self, names: Names) -> None:
        self._subscriptions = GroupSubscriptions(names)
        self._found: dict[MemberKey, PriorMember] = {}
        self._joined: set[MemberKey] = set()
        self._clients: dict[MemberKey, ClientKey] = {}
        self._requests: list[tuple[int, MemberKey]] = []

    def take(
        self, request: Request, body: Tree, response: Tree | None, client: ClientKey, sent: bool
    ) -> None:
        """Learn from a request with its response; `sent`: whether it is to be sent."""
        response = response or {}
        self._subscriptions.learn(request, body, response, client)
        if not sent:
            return
        key, group = request.key, body.get("group_id") or ""
        if key == ApiKey.JOIN_GROUP or (key in HEARTBEATS_THAT_JOIN and body["member_epoch"] == 0):
            ids = (body["member_id"], response.get("member_id"))
            self._joined.update((group, each) for each in ids if each)
        elif response.get("error_code", 0) not in NOT_A_MEMBER:
            for member, instance in _members_in(key, body):
                if (group, member) not in self._joined:
                    self._add(request, (group, member), instance, client)

    def _add(self, request: Request, member: MemberKey, instance: str | None, client: ClientKey) -> None:
        prior = self._found.get(member)
        if prior is None:
            prior = PriorMember(*member, request.connection, request.first_ns, client[1])
            self._found[member], self._clients[member] = prior, client
        prior.instance = prior.instance or instance
        if request.key in OF_SHARE_GROUPS:
            prior.joins_by = ApiKey.SHARE_GROUP_HEARTBEAT
        elif request.key in HEARTBEATS_THAT_JOIN:
            prior.joins_by = request.key
        if request.key not in OFFSET_COMMITS:  # those can be sent without a member too
            self._requests.append((request.index, member))

    def found(self) -> dict[MemberKey, PriorMember]:
        """Return all older members about which the capture tells enough."""
        for key, prior in self._found.items():
            group = self._subscriptions.group(prior.group)
            topics = group.topics_of(prior.member) or self._subscriptions.fetched(self._clients[key])
            prior.topics = tuple(sorted(topics))
            prior.template = group.join_of(prior.member)
        return {key: prior for key, prior in self._found.items() if self._refusal(prior) is None}

    def refusals(self) -> Iterator[tuple[int, Refusal]]:
        """Return the requests whose member cannot be let in, and why; to be called after `found`."""
        for index, member in self._requests:
            refusal = self._refusal(self._found[member])
            if refusal is not None:
                yield index, refusal

    def _refusal(self, prior: PriorMember) -> Refusal | None:
        foreign = self._subscriptions.group(prior.group).foreign
        if foreign is not None:
            return Refusal(Disposition.POLICY, f"groups of protocol type {foreign!r} are not supported")
        if not prior.topics:
            why = "its member joined before the capture began, which does not tell what it subscribes to"
            return Refusal(Disposition.HEADLESS, why)
        return None


def _members_in(key: int, body: Tree) -> Iterable[tuple[str, str | None]]:
    """Return the members that a request is from, with their instance ids."""
    if key == ApiKey.LEAVE_GROUP and "members" in body:
        members = (each for each in body["members"] if each["member_id"])
        return [(each["member_id"], each.get("group_instance_id")) for each in members]
    if key in OFFSET_COMMITS and body.get(COMMIT_GENERATION, -1) < 0:
        return ()
    if key in OF_MEMBERS and body.get("member_id"):
        return [(body["member_id"], body.get("group_instance_id", body.get("instance_id")))]
    return ()
