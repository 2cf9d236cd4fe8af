"""Members that are older than what is sent: they heartbeat, commit or fetch, but never join in it.

In: every request with its response, in the order of the capture. Out: the `PriorMember`s that a run has to
let in before they can go on, and refusals for the requests of members about which the capture tells too
little.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import NOT_A_MEMBER
from kdissect.replay.disposition import Disposition
from kdissect.replay.identifiers import ClientKey, MemberKey
from kdissect.replay.load.group_subscriptions import GroupSubscriptions
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Names, Tree

HEARTBEATS_THAT_JOIN = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT)
OF_SHARE_GROUPS = (ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
COMMIT_GENERATION: dict[int, str] = {
    ApiKey.OFFSET_COMMIT: "generation_id_or_member_epoch",
    ApiKey.TXN_OFFSET_COMMIT: "generation_id",
}
OF_MEMBERS = frozenset(
    {
        *COMMIT_GENERATION,
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
        if request.key not in COMMIT_GENERATION:  # those can be sent without a member too
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
    if key in COMMIT_GENERATION and body.get(COMMIT_GENERATION[key], -1) < 0:
        return ()
    if key in OF_MEMBERS and body.get("member_id"):
        return [(body["member_id"], body.get("group_instance_id", body.get("instance_id")))]
    return ()
