"""Members of groups: which member on the target stands for which captured one.

A captured member is known by its captured id. Its `LiveMember` has the id, generation and role that the
target gave it. Generations are not mapped one by one, since a group of the target may rebalance more or less
often than the captured one: each request of a member carries what the target told it last.
"""

from dataclasses import dataclass, field
from uuid import NAMESPACE_OID, uuid5

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import EPOCH_MEMBER_LOST
from kdissect.replay.effects import Gate
from kdissect.replay.identifiers import MemberKey
from kdissect.replay.rewrite.names import Tree
from kdissect.text import format_uuid

JOINING = 0  # the epoch of one who is not in yet


@dataclass(slots=True)
class LiveMember:
    """One member of a group of the target."""

    group: str  # as captured
    member_id: str
    generation: int = -1
    leader: str = ""
    protocol: str | None = None
    others: list[str] = field(default_factory=list)  # ids of all members, if this one leads
    join: Tree = field(default_factory=dict)  # the last join, with the target's values
    join_version: int = 0
    owned: list[Tree] = field(default_factory=list)  # KIP-848: what the target assigned
    rejoining: Gate | None = None  # opens when it is in again
    joining: bool = False  # a captured join of it is under way
    client_id: str | None = None
    connection: int = 0
    joins_by: int = ApiKey.JOIN_GROUP

    @property
    def leads(self) -> bool:
        """Return whether it assigns for all."""
        return bool(self.leader) and self.leader == self.member_id

    @property
    def is_in(self) -> bool:
        """Return whether the target has told it a generation."""
        return self.generation >= 0

    def take_heartbeat_response(self, response: Tree) -> None:
        """Learn from the response to a heartbeat (KIP-848); a member that is put out has to join again."""
        if not response:
            return
        if response["error_code"] in EPOCH_MEMBER_LOST:
            self.generation, self.owned = JOINING, []
        elif not response["error_code"]:
            self.member_id = response.get("member_id") or self.member_id
            self.generation = response["member_epoch"]
            if response.get("assignment") is not None:
                self.owned = response["assignment"]["topic_partitions"]

    def take_join_response(self, request: Tree, version: int, response: Tree) -> None:
        """Learn from the response to a successful JoinGroup, and keep the request to join again with."""
        self.member_id, self.generation = response["member_id"], response["generation_id"]
        self.leader, self.protocol = response["leader"], response.get("protocol_name")
        self.others = [each["member_id"] for each in response["members"]]
        self.join, self.join_version = request | {"member_id": self.member_id}, version


def own_member_id(run: str, group: str, captured: str) -> str:
    """Return the id of a member that chooses it itself (KIP-1082), in the form that share groups demand."""
    name = f"{run} {group} {captured}".encode("utf-8", "backslashreplace").decode()  # may be any bytes
    return format_uuid(uuid5(NAMESPACE_OID, name).bytes)


class Members:
    """All members of this run by captured group and captured member id."""

    def __init__(self) -> None:
        self._live: dict[MemberKey, LiveMember] = {}
        self._joining: dict[int, Gate] = {}

    def joining(self, index: int) -> Gate:
        """Return the gate that opens when a captured join is sent, or cannot be."""
        return self._joining.setdefault(index, Gate())

    def live(self, group: str, captured: str) -> LiveMember | None:
        """Return the member that stands for a captured one."""
        return self._live.get((group, captured))

    def learn(self, live: LiveMember, *captured: str | None) -> None:
        """Note which captured ids a member stands for."""
        for name in captured:
            if name:
                self._live[live.group, name] = live

    def forget(self, group: str, captured: str) -> None:
        """Note that a member left."""
        self._live.pop((group, captured), None)

    def of_group(self, group: str) -> dict[str, LiveMember]:
        """Return the members of a group by captured id."""
        return {captured: live for (name, captured), live in self._live.items() if name == group}

    def all(self) -> list[LiveMember]:
        """Return each member once."""
        return list({id(live): live for live in self._live.values()}.values())
