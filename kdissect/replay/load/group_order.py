"""The order between members of a group: who joined, synced, committed or left before whom in the capture.

In: requests of groups with their responses, in the order of the capture. Out, by request:

- `ended`: the requests of other members that had been answered before it was sent. A heartbeat or a commit
  comes after joins, syncs and leaves; a join or a leave, which begins a rebalance, comes after every request.
- `sent`: the joins that had been sent before a join, and not answered. They form one generation, so the join
  that began the rebalance has to be the first.

A sync does not wait for other syncs: on the target another member may lead, and all others wait for it.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, GROUP_MEMBERSHIP, OFFSET_COMMITS, ApiKey
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Tree

OF_MEMBERS = GROUP_MEMBERSHIP | OFFSET_COMMITS
REMEMBERED = 4  # requests of a connection: more are hardly ever in flight
ROUND_TRIPS = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP})


@dataclass(slots=True)
class _Recent:
    """The last requests of one connection in one group: time of the answer, and index."""

    every: list[tuple[int, int]] = field(default_factory=list)
    joins: list[tuple[int, int]] = field(default_factory=list)  # those that change the members
    entries: list[tuple[int, int]] = field(default_factory=list)  # of these all but syncs


class GroupOrder:
    """Learns from all requests of groups in order."""

    def __init__(self) -> None:
        self.ended: dict[int, tuple[int, ...]] = {}
        self.sent: dict[int, tuple[int, ...]] = {}
        self._groups: dict[str, dict[int, _Recent]] = defaultdict(dict)
        self._open_joins: dict[str, list[tuple[int, int]]] = defaultdict(list)

    def take(self, request: Request, body: Tree, response: Tree) -> None:
        """Learn from a request that will be sent, and its response."""
        if request.key not in OF_MEMBERS or not body.get("group_id"):
            return
        group, now_ns = body["group_id"], request.first_ns
        changes, begins = _changes_members(request.key, body, response), _begins_rebalance(request.key, body)
        ended = set()
        for connection, recent in self._groups[group].items():
            if connection == request.connection:
                continue
            earlier = recent.every if begins else recent.joins
            if request.key == ApiKey.SYNC_GROUP:
                earlier = recent.entries
            last = max((each for each in earlier if each[0] <= now_ns), default=None)
            if last is not None:
                ended.add(last[1])
        if ended:
            self.ended[request.index] = tuple(sorted(ended))
        answered_ns = request.answered_ns
        if request.key == ApiKey.JOIN_GROUP:
            open_joins = [each for each in self._open_joins[group] if each[0] > now_ns]
            if open_joins:
                self.sent[request.index] = tuple(index for _, index in open_joins)
            if answered_ns is not None:
                open_joins.append((answered_ns, request.index))
            self._open_joins[group] = open_joins
        if answered_ns is not None:
            own = self._groups[group].setdefault(request.connection, _Recent())
            _remember(own.every, answered_ns, request.index)
            if changes:
                _remember(own.joins, answered_ns, request.index)
                if request.key != ApiKey.SYNC_GROUP:
                    _remember(own.entries, answered_ns, request.index)


def _remember(recent: list[tuple[int, int]], answered_ns: int, index: int) -> None:
    recent.append((answered_ns, index))
    del recent[:-REMEMBERED]


def _begins_rebalance(key: int, body: Tree) -> bool:
    if key in EPOCH_HEARTBEATS:
        return bool(body["member_epoch"] <= 0)
    return key in (ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP)


def _changes_members(key: int, body: Tree, response: Tree) -> bool:
    if key in EPOCH_HEARTBEATS:
        return bool(body["member_epoch"] <= 0 or response.get("member_epoch") != body["member_epoch"])
    return key in ROUND_TRIPS
