"""Coordinators of groups and transactional ids: which node they are, and questions that only they answer.

A coordinator moves, loads its state, or still ends a transaction; it then responds with an error that passes.
`ask` asks until the response says more than that, since all that comes later waits for it. An error that
passes and that the captured client got too is left as it is: that client asked again by itself.
"""

from collections.abc import Mapping

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import COORDINATOR_ERRORS, ErrorCode, error_name
from kdissect.protocol.visitor import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, Answer, Coroutine, Part, ask, ask_one, pause
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.pass_state import PassNotes, RunClock
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.target.cluster import OWN_CLIENT_ID, TargetCluster

PASSING = COORDINATOR_ERRORS | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,  # a transaction that commits offsets has not ended (KIP-447)
    ErrorCode.NETWORK_EXCEPTION,
}
"""Errors that pass. The last one no broker sends: clients name so that they cannot reach one."""

FIRST_PAUSE_NS, LONGEST_PAUSE_NS = 5_000_000, 50_000_000  # before something is sent again
MOST_MOVES = 16  # of the coordinator, for one request
BATCHED_LOOKUPS = 4  # FindCoordinator from which one request asks for several keys (KIP-699)

# API -> the field with the group, or the transactional id, by which a request is routed.
GROUP_FIELD: Mapping[int, str] = dict.fromkeys(
    (
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
    ),
    "group_id",
)
GROUPS_FIELD: Mapping[int, str] = {
    ApiKey.OFFSET_FETCH: "groups",
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.DELETE_GROUPS: "groups_names",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "group_ids",
    ApiKey.SHARE_GROUP_DESCRIBE: "group_ids",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "groups",
}
TRANSACTION_FIELD: Mapping[int, str] = {
    ApiKey.INIT_PRODUCER_ID: "transactional_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "v3_and_below_transactional_id",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactional_id",
    ApiKey.END_TXN: "transactional_id",
}


class Coordinators:
    """Questions to coordinators. All names are those of the target."""

    def __init__(self, cluster: TargetCluster, clock: RunClock, notes: PassNotes, deadline_s: float) -> None:
        self._cluster, self._clock, self._notes, self._deadline_s = cluster, clock, notes, deadline_s

    def node_for(self, key: int, body: Tree) -> Coroutine[int]:
        """Return the node that a request must go to; ANY for one that any node answers.

        Raise SkipRequest as `find` does.
        """
        if key in GROUP_FIELD:
            return (yield from self.find(GROUP_COORDINATOR, body[GROUP_FIELD[key]]))
        if key in TRANSACTION_FIELD and body.get(TRANSACTION_FIELD[key]):
            return (yield from self.find(TRANSACTION_COORDINATOR, body[TRANSACTION_FIELD[key]]))
        if key in GROUPS_FIELD:
            name = _first_group(key, body)
            if name:
                return (yield from self.find(GROUP_COORDINATOR, name))
        return ANY

    def find(self, kind: int, name: str) -> Coroutine[int]:
        """Return the coordinator of a group or a transactional id.

        Raise SkipRequest if none is found in time.
        """
        known = self._cluster.coordinators.get((kind, name))
        if known is not None and known in self._cluster.nodes:
            return known
        deadline_ns = self._clock.deadline_ns(self._deadline_s)
        version, body = self._lookup(kind, name)
        error = "no answer"
        while self._clock.now_ns() < deadline_ns:
            part = Part(ApiKey.FIND_COORDINATOR, version, body, client_id=OWN_CLIENT_ID)
            answer = yield from ask_one(part)
            response = answer.body
            found: Tree = next(iter(response.get("coordinators", (response,))), {})
            if found.get("error_code") == ErrorCode.NONE:
                self._cluster.learn_coordinator(kind, name, found["node_id"], (found["host"], found["port"]))
                return int(found["node_id"])
            error = error_name(found["error_code"]) if found else f"{answer.bucket}, without a coordinator"
            yield from pause(2 * LONGEST_PAUSE_NS)
        raise SkipRequest(Disposition.DEPENDENCY, f"no coordinator of {name} on the target: {error}")

    def ask(
        self, key: int, version: int, body: Tree, client_id: str | None, item: ReplayItem | None = None
    ) -> Coroutine[Answer]:
        """Send a request until the answer is more than a passing error, and return it.

        Time may be up before, or the coordinator has moved too often.

        The first sending counts as the captured request `item`; without one all are the replayer's own.
        """
        deadline_ns = self._clock.deadline_ns(self._deadline_s)
        tries, moves, last_node = 0, -1, ANY
        while True:
            node = yield from self.node_for(key, body)
            moves, last_node = moves + (node != last_node), node
            part = Part(key, version, body, node, client_id, wait_ms=body.get("rebalance_timeout_ms", 0))
            (answer,) = yield from ask((part,), synthetic=tries > 0 or item is None)
            error = ErrorCode.NETWORK_EXCEPTION if answer.unsent else answer.first_error
            if error in COORDINATOR_ERRORS or answer.unsent:
                self.forget(key, body)
            captured_too = item is not None and item.error in PASSING and not answer.unsent
            in_time = self._clock.now_ns() < deadline_ns and moves < MOST_MOVES
            if error not in PASSING or captured_too or not in_time:
                return answer
            self._notes.counts["asked again"] += 1
            if item is not None:
                self._notes.add(item, f"asked again after {error_name(error)}")
            yield from pause(pause_ns(tries))
            tries += 1

    def forget(self, key: int, body: Tree) -> None:
        """Look for the coordinator of a request again next time."""
        for kind, table in ((GROUP_COORDINATOR, GROUP_FIELD), (TRANSACTION_COORDINATOR, TRANSACTION_FIELD)):
            if key in table:
                self._cluster.coordinators.pop((kind, body.get(table[key]) or ""), None)
        if key in GROUPS_FIELD:
            self._cluster.coordinators.pop((GROUP_COORDINATOR, _first_group(key, body)), None)

    def _lookup(self, kind: int, name: str) -> tuple[int, Tree]:
        spoken = self._cluster.versions.get(ApiKey.FIND_COORDINATOR)
        version = chosen_version(ApiKey.FIND_COORDINATOR, BATCHED_LOOKUPS, spoken) or 0
        if version >= BATCHED_LOOKUPS:
            return version, {"key_type": kind, "coordinator_keys": [name]}
        return version, {"key": name, "key_type": kind} if version else {"key": name}


def _first_group(key: int, body: Tree) -> str:
    """Return the group by which a request about several groups is routed, "" if it names none."""
    group = body.get("group_id") or next(iter(body.get(GROUPS_FIELD[key]) or ()), None)
    return str((group.get("group_id") if isinstance(group, dict) else group) or "")


def pause_ns(tries: int) -> int:
    """Return how long to wait before something is sent again.

    A transaction ends within ms, a coordinator that moves needs longer. Waiting much longer than that would
    soon be late for a client that has a transaction every few ms.
    """
    return min(FIRST_PAUSE_NS << min(tries, 8), LONGEST_PAUSE_NS)
