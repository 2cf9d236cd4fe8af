"""A coordinator on paper that holds joins until all members have joined, as brokers do."""

from __future__ import annotations

from dataclasses import dataclass, field

from kdissect.protocol.codec.messages import decode_request
from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.net.connection import Connection
from tests.helpers.paper_cluster import JOIN, SYNC, Tree
from tests.helpers.paper_groups import HEARTBEAT, LEAVE
from tests.helpers.paper_target import PaperTarget

Waiting = tuple[Connection, Tree]  # who waits for an answer, and the header of the request


@dataclass(eq=False)
class Rebalancing(PaperTarget):
    """One group. Nobody is put out: a member that does not join holds up all others."""

    members: list[str] = field(default_factory=list)
    generations: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)  # time, and who was in
    given: dict[str, bytes] = field(default_factory=dict)  # assignments of the last generation
    rebalancing: bool = False
    waits_for_ids: bool = False  # also for ids that were given away and not used yet
    unused: set[str] = field(default_factory=set)
    _named: int = 0
    _joining: dict[str, Waiting] = field(default_factory=dict)
    _syncing: dict[str, Waiting] = field(default_factory=dict)

    def take(self, link: Connection, frame: bytes) -> None:
        whole = decode_request(frame)
        key, body = whole.header["request_api_key"], whole.body
        handlers = {JOIN: self._join, SYNC: self._sync, HEARTBEAT: self._beat, LEAVE: self._leave}
        handle = handlers.get(key)
        if handle is None or body is None:
            return super().take(link, frame)
        self.asked.append((self.now_ns, key, whole.header["request_api_version"], body))
        return handle((link, whole.header), body)

    def _join(self, waiting: Waiting, body: Tree) -> None:
        name = body["member_id"]
        if not name:
            self._named += 1
            name = f"live-{self._named}"
            if self.waits_for_ids:
                self.unused.add(name)
            answer = {"error_code": ErrorCode.MEMBER_ID_REQUIRED, "member_id": name, "leader": ""}
            return self.reply(*waiting, answer | {"members": [], "protocol_name": ""})
        self.unused.discard(name)
        if name not in self.members:
            self.members.append(name)
        self._joining[name], self.rebalancing = waiting, True
        return self._complete()

    def _complete(self) -> None:
        if not self._joining or self.unused or self._joining.keys() != set(self.members):
            return
        self.generations.append((self.now_ns, tuple(self.members)))
        self.given, self.rebalancing = {}, False
        leader, everybody = self.members[0], [{"member_id": each, "metadata": b""} for each in self.members]
        for each, held in self._joining.items():
            answer = {"error_code": 0, "generation_id": len(self.generations), "protocol_name": "range"}
            members = everybody if each == leader else []
            self.reply(*held, answer | {"leader": leader, "member_id": each, "members": members})
        self._joining.clear()

    def _leave(self, waiting: Waiting, body: Tree) -> None:
        gone = {each["member_id"] for each in body["members"]}
        self.unused -= gone
        self.members = [each for each in self.members if each not in gone]
        self.reply(*waiting, {"error_code": 0, "members": []})
        self._complete()

    def _sync(self, waiting: Waiting, body: Tree) -> None:
        if self.rebalancing or body["generation_id"] != len(self.generations):
            return self.reply(*waiting, {"error_code": ErrorCode.REBALANCE_IN_PROGRESS, "assignment": b""})
        self._syncing[body["member_id"]] = waiting
        self.given |= {each["member_id"]: each["assignment"] for each in body["assignments"]}
        if self.given:
            for each, held in self._syncing.items():
                self.reply(*held, {"error_code": 0, "assignment": self.given[each]})
            self._syncing.clear()
        return None

    def _beat(self, waiting: Waiting, body: Tree) -> None:
        behind = self.rebalancing or body["generation_id"] != len(self.generations)
        self.reply(*waiting, {"error_code": ErrorCode.REBALANCE_IN_PROGRESS if behind else 0})
