"""Members of groups: who on the target stands for whom in the capture.

A captured member is known by its captured id; its `Live` one has the id, generation and role that the target gave it. Generations are
not mapped one by one: a live group may rebalance more or less often than the captured one, so whatever a member says, it says
with what it was told last.
"""

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from uuid import NAMESPACE_OID, uuid5

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import EPOCH_MEMBER_LOST
from kdissect.replay.effects import Gate
from kdissect.replay.rewrite.roles import Tree

JOINING = 0  # the epoch of one who is not in yet


@dataclass(slots=True)
class Live:
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
    connection: int = 0
    joins_by: int = ApiKey.JOIN_GROUP

    @property
    def leads(self) -> bool:
        """Whether it assigns for all."""
        return bool(self.leader) and self.leader == self.member_id

    def heartbeat_answered(self, said: Tree) -> None:
        """Take in what a member is told that joins by heartbeat; who is put out has to join again."""
        if not said:
            return
        if said["error_code"] in EPOCH_MEMBER_LOST:
            self.generation, self.owned = JOINING, []
        elif not said["error_code"]:
            self.member_id = said.get("member_id") or self.member_id
            self.generation = said["member_epoch"]
            if said.get("assignment") is not None:
                self.owned = said["assignment"]["topic_partitions"]


def own_member_id(run: str, group: str, captured: str) -> str:
    """Make the id of a member that chooses it itself (KIP-1082), in the form that share groups demand."""
    return urlsafe_b64encode(uuid5(NAMESPACE_OID, f"{run} {group} {captured}").bytes).decode().rstrip("=")


class Members:
    """All members of this run by captured group and captured member id."""

    def __init__(self) -> None:
        self._live: dict[tuple[str, str], Live] = {}

    def live(self, group: str, captured: str) -> Live | None:
        """Give who stands for a captured member."""
        return self._live.get((group, captured))

    def learn(self, captured: str, live: Live) -> None:
        """Take in who stands for a captured member."""
        self._live[live.group, captured] = live

    def forget(self, group: str, captured: str) -> None:
        """A member left."""
        self._live.pop((group, captured), None)

    def of_group(self, group: str) -> dict[str, Live]:
        """Give the members of a group by captured id."""
        return {captured: live for (name, captured), live in self._live.items() if name == group}

    def all(self) -> list[Live]:
        """Give everyone, once."""
        return list({id(live): live for live in self._live.values()}.values())
