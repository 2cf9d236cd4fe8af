"""Members that are older than what is played: they heartbeat, commit or fetch, but never join in it.

A run has to let them in before they can go on. What they subscribe to is pieced together from what the whole capture tells,
before or after: joins and full heartbeats of their own or of others in their group, assignments, descriptions of the group,
what they or else the others commit, and last what their client fetches. A member of which nothing is told is not let in, and what it says is skipped.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_embedded
from kdissect.protocol.error_codes import NOT_A_MEMBER
from kdissect.replay.disposition import Disposition
from kdissect.replay.identifiers import ClientKey, MemberKey
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.requests import Request
from kdissect.replay.rewrite.names import Names, Tree

HEARTBEATS_JOIN = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT)
BY_SHARE = (ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
COMMITS: dict[int, str] = {
    ApiKey.OFFSET_COMMIT: "generation_id_or_member_epoch",
    ApiKey.TXN_OFFSET_COMMIT: "generation_id",
}
TOGETHER_NS = 10_000_000_000  # members that first speak within this time are let in at once: three heartbeats
CLASSIC = "consumer"


@dataclass(slots=True)
class PriorMember:
    """One such member. Names are those of the capture."""

    group: str
    member: str
    connection: int  # where it first speaks
    first_ns: int
    client_id: str | None
    joins_by: int = ApiKey.JOIN_GROUP  # the API by which it once joined
    instance: str | None = None
    topics: tuple[str, ...] = ()
    template: tuple[int, Tree] | None = None  # version and body of a join of its group, best its own


@dataclass(slots=True)
class _Group:
    """What is told of a group as a whole."""

    topics: set[str] = field(default_factory=set)
    by_member: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    joins: dict[str, tuple[int, Tree]] = field(default_factory=dict)  # by member id, the first one also by ""
    foreign: str | None = None  # its protocol type, if that is not of consumers


class PriorMembers:
    """Takes all requests in order; says at the end who is older."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._found: dict[MemberKey, PriorMember] = {}
        self._joined: set[MemberKey] = set()
        self._groups: dict[str, _Group] = defaultdict(_Group)
        self._fetched: dict[ClientKey, set[str]] = defaultdict(set)
        self._clients: dict[MemberKey, ClientKey] = {}
        self._acts: list[tuple[int, MemberKey]] = []

    def take(self, request: Request, body: Tree, said: Tree | None, client: ClientKey, played: bool) -> None:
        """Take in a request with its answer; `played`: whether it is to be sent."""
        key = request.key
        self._learn(request, body, said or {}, client)
        if not played:
            return
        group = body.get("group_id") or ""
        if key == ApiKey.JOIN_GROUP or (key in HEARTBEATS_JOIN and body["member_epoch"] == 0):
            self._joined.update(
                (group, each) for each in (body["member_id"], (said or {}).get("member_id")) if each
            )
            return
        if said and said.get("error_code", 0) in NOT_A_MEMBER:
            return
        for member, instance in _speaking(key, body):
            place = (group, member)
            if place in self._joined:
                continue
            prior = self._found.get(place)
            if prior is None:
                prior = self._found[place] = PriorMember(
                    group, member, request.connection, request.first_ns, client[1]
                )
                self._clients[place] = client
            prior.instance = prior.instance or instance
            if key in (*HEARTBEATS_JOIN, *BY_SHARE):
                prior.joins_by = ApiKey.SHARE_GROUP_HEARTBEAT if key in BY_SHARE else key
            if key not in COMMITS:  # they can be without a member too
                self._acts.append((request.index, place))

    def found(self) -> dict[MemberKey, PriorMember]:
        """Give all who are older and of whom enough is told."""
        for place, prior in self._found.items():
            group = self._groups[prior.group]
            told = group.by_member[prior.member] | group.topics
            beside = set[str]().union(*group.by_member.values())
            prior.topics = tuple(sorted(told or beside or self._fetched[self._clients[place]]))
            prior.template = group.joins.get(prior.member) or group.joins.get("")
        return {place: prior for place, prior in self._found.items() if self._refusal(prior) is None}

    def refusals(self) -> Iterator[tuple[int, Refusal]]:
        """Give the requests whose member cannot be let in, and why; to be asked after `found`."""
        for index, place in self._acts:
            refusal = self._refusal(self._found[place])
            if refusal is not None:
                yield index, refusal

    def _refusal(self, prior: PriorMember) -> Refusal | None:
        foreign = self._groups[prior.group].foreign
        if foreign is not None:
            return Refusal(Disposition.POLICY, f"groups of protocol type {foreign!r} are not supported")
        if not prior.topics:
            why = "its member joined before the capture began, which does not tell what it subscribes to"
            return Refusal(Disposition.HEADLESS, why)
        return None

    # What is told

    def _learn(self, request: Request, body: Tree, said: Tree, client: ClientKey) -> None:
        key, names = request.key, self._names
        if key == ApiKey.FETCH:
            self._fetched[client].update(_topics(names, body["topics"], "topic"))
        elif key in (ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE):
            self._learn_descriptions(said)
        elif body.get("group_id"):
            group = self._groups[body["group_id"]]
            kind = "streams" if key == ApiKey.STREAMS_GROUP_HEARTBEAT else body.get("protocol_type")
            if kind and kind != CLASSIC:
                group.foreign = kind
            elif key in TELLING:
                TELLING[key](group, names, request.version or 0, body, said)

    def _learn_descriptions(self, said: Tree) -> None:
        for each in said.get("groups") or ():
            group = self._groups[each["group_id"]]
            kind = each.get("protocol_type")
            if kind and kind != CLASSIC:
                group.foreign = kind
                continue
            for member in each["members"]:
                own = group.by_member[member["member_id"]]
                own.update(member.get("subscribed_topic_names") or ())
                own.update(_subscribed(member.get("member_metadata")))
                own.update(_assigned(member.get("member_assignment")))
                assignment = member.get("assignment") or {}
                own.update(each["topic_name"] for each in assignment.get("topic_partitions") or ())


def _speaking(key: int, body: Tree) -> Iterable[tuple[str, str | None]]:
    """Give the members that speak in a request, with their instance ids."""
    if key == ApiKey.LEAVE_GROUP and "members" in body:
        return [
            (each["member_id"], each.get("group_instance_id"))
            for each in body["members"]
            if each["member_id"]
        ]
    if key in COMMITS and body.get(COMMITS[key], -1) < 0:
        return ()
    if key in SPEAKING and body.get("member_id"):
        return [(body["member_id"], body.get("group_instance_id", body.get("instance_id")))]
    return ()


SPEAKING = frozenset(
    {*COMMITS, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, *HEARTBEATS_JOIN, *BY_SHARE}
)


def _topics(names: Names, topics: Iterable[Tree] | None, key: str = "name") -> list[str]:
    found = (names.captured_topic(each, key) for each in topics or ())
    return [each for each in found if each]


def _subscribed(metadata: bytes | None) -> list[str]:
    return list(_embedded("ConsumerProtocolSubscription", metadata).get("topics") or ())


def _assigned(assignment: bytes | None) -> list[str]:
    value = _embedded("ConsumerProtocolAssignment", assignment)
    return [each["topic"] for each in value.get("assigned_partitions") or ()]


def _embedded(message: str, data: bytes | None) -> Tree:
    """Read what members say to each other; nothing where it makes no sense."""
    found = decode_embedded(message, data) if data else None
    return found.value if found and not found.fault else {}


def _join(group: _Group, _names: Names, version: int, body: Tree, said: Tree) -> None:
    for member in {body["member_id"], said.get("member_id") or ""}:
        group.joins.setdefault(member, (version, body))
    group.joins.setdefault("", (version, body))
    for protocol in body["protocols"]:
        group.topics.update(_subscribed(protocol["metadata"]))


def _sync(group: _Group, _names: Names, _version: int, body: Tree, said: Tree) -> None:
    group.by_member[body["member_id"]].update(_assigned(said.get("assignment")))
    for each in body["assignments"]:
        group.by_member[each["member_id"]].update(_assigned(each["assignment"]))


def _heartbeat(group: _Group, names: Names, _version: int, body: Tree, said: Tree) -> None:
    group.topics.update(body["subscribed_topic_names"] or ())
    owned = body.get("topic_partitions") or ()
    given = (said.get("assignment") or {}).get("topic_partitions") or ()
    group.by_member[body["member_id"]].update(_topics(names, (*owned, *given)))


def _positions(group: _Group, names: Names, _version: int, body: Tree, _said: Tree) -> None:
    group.by_member[body.get("member_id") or ""].update(_topics(names, body["topics"]))


TELLING: dict[int, Callable[[_Group, Names, int, Tree, Tree], None]] = {
    ApiKey.JOIN_GROUP: _join,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _heartbeat,
    ApiKey.SHARE_GROUP_HEARTBEAT: _heartbeat,
    ApiKey.OFFSET_COMMIT: _positions,
    ApiKey.TXN_OFFSET_COMMIT: _positions,
    ApiKey.SHARE_FETCH: _positions,
    ApiKey.SHARE_ACKNOWLEDGE: _positions,
}
