"""Fetch sessions with the target (KIP-227), and what each captured connection reads in them.

A session of the replayer's own names all partitions when it begins, and then what changed. A fetch in a
session changes little, and so does its replay: only those partitions are looked at again that the client
named, whose last response brought records, or about which more is known than before. If leaders moved, or
another captured session begins, all partitions are assigned to nodes anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kdissect.replay.identifiers import NodeKey, TopicPartition
from kdissect.replay.load.captured_fetch_sessions import (
    INITIAL_EPOCH,
    NO_SESSION,
    CapturedFetchSessions,
    FetchScope,
)
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.target.offsets import PartitionOffsets, Positions

EPOCH_LIMIT = (1 << 31) - 1

PartitionsByNode: TypeAlias = dict[int, dict[TopicPartition, Tree]]
"""Node -> the partitions that it is asked for, by their names on the target, with their fields."""


class SessionTurn(NamedTuple):
    """Next request of a session: id and epoch, the partitions to name, and those to forget."""

    session_id: int
    epoch: int
    named: Mapping[TopicPartition, Tree]
    forgotten: Sequence[TopicPartition]


@dataclass(slots=True)
class OwnFetchSession:
    """A session of the replayer's own with one node."""

    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH

    def next_turn(
        self,
        partitions: Mapping[TopicPartition, Tree],
        changed: Mapping[TopicPartition, Tree],
        gone: Sequence[TopicPartition],
    ) -> SessionTurn:
        """Return what the next request says; `changed` and `gone` count from the last request."""
        if not self.session_id:
            return SessionTurn(NO_SESSION, INITIAL_EPOCH, partitions, ())
        epoch, self.epoch = self.epoch, 1 if self.epoch >= EPOCH_LIMIT else self.epoch + 1
        return SessionTurn(self.session_id, epoch, changed, gone)

    def take_response(self, requested: tuple[int, int], session_id: int, error: int) -> None:
        """Learn from the response to (session id, epoch); after any error of the session a new one begins."""
        requested_id, requested_epoch = requested
        if requested_epoch == INITIAL_EPOCH and not error:
            self.session_id, self.epoch = session_id, 1
        elif requested_id == self.session_id and (error or not session_id):
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH


@dataclass(slots=True)
class ReadPosition:
    """Position at which a captured connection reads a partition."""

    captured: int = -1  # what it names next if it reads on
    target: int | None = None  # behind what the target has given to it; None: nothing yet
    missed: int = 0  # bytes of records that captured answers had and the target has not given


@dataclass(slots=True)
class FetchedPartition:
    """One partition that a connection reads."""

    captured: TopicPartition
    leader: int
    target: TopicPartition  # its name on the target
    captured_offset: int  # that the client named last
    most_bytes: int  # that it asked for
    fields: Tree  # as the target gets them
    position: ReadPosition
    offsets: PartitionOffsets
    turn: int  # of `offsets`, when they were last looked at


@dataclass(slots=True)
class FetchChanges:
    """Differences from the fetch before, node by node."""

    named: PartitionsByNode = field(default_factory=dict)
    gone: dict[int, list[TopicPartition]] = field(default_factory=dict)


@dataclass(slots=True)
class FetchState:
    """Partitions that one captured connection reads on the target by now."""

    scope: object = None  # the partitions of the captured session that it reads by
    turn: int = -1  # of the cluster
    last: int = -1  # the captured fetch that was sent last
    sizes_differ: bool = False  # the target stores records in other sizes, so bytes cannot be waited for
    nodes: PartitionsByNode = field(default_factory=dict)
    _partitions: dict[TopicPartition, FetchedPartition] = field(default_factory=dict)

    def is_of(self, scope: FetchScope, turn: int) -> bool:
        """Return whether the connection goes on as before: in the same session, with the same leaders."""
        return self.scope is scope.partitions and self.turn == turn

    def replace(self, scope: FetchScope, turn: int, partitions: Iterable[FetchedPartition]) -> FetchChanges:
        """Read these partitions instead of those before, and return what changed."""
        before, self.scope, self.turn = self.nodes, scope.partitions, turn
        self._partitions = {each.captured: each for each in partitions}
        self.nodes = partitions_by_node(self._partitions.values())
        changes = FetchChanges()
        for node in before.keys() | self.nodes.keys():
            old, new = before.get(node, {}), self.nodes.get(node, {})
            changes.named[node] = {
                partition: fields for partition, fields in new.items() if old.get(partition) != fields
            }
            changes.gone[node] = [partition for partition in old if partition not in new]
        return changes

    def partitions(self) -> Iterable[FetchedPartition]:
        """Return all partitions that the connection reads."""
        return self._partitions.values()

    def update(
        self,
        named: Mapping[TopicPartition, FetchedPartition],
        gone: Iterable[TopicPartition],
        positions: Positions,
    ) -> FetchChanges:
        """Learn which partitions the client named, and which it reads no more; return all that changed."""
        changes, partitions = FetchChanges(), self._partitions
        for captured in gone:
            left = partitions.pop(captured, None)
            if left is not None:
                self._leave_out(left, changes)
                if not any(each.leader == left.leader for each in partitions.values()):
                    del self.nodes[left.leader]
        self._move_on(named, positions, changes)
        for captured, partition in named.items():
            known = partitions.get(captured)
            if known is None or known.fields != partition.fields:
                self._put(partition, partition.fields, changes)
            partitions[captured] = partition
        return changes

    def limit(self, limits: Mapping[TopicPartition, int], changes: FetchChanges) -> None:
        """Limit how many bytes of each captured partition are taken, and note what changed.

        A partition of which nothing is taken is left out.
        """
        for captured, size in limits.items():
            partition = self._partitions[captured]
            if not size:
                self._leave_out(partition, changes)
            elif (
                partition.fields["partition_max_bytes"] != size
                or partition.target not in self.nodes[partition.leader]
            ):
                self._put(partition, partition.fields | {"partition_max_bytes": size}, changes)

    def _move_on(
        self, named: Mapping[TopicPartition, FetchedPartition], positions: Positions, changes: FetchChanges
    ) -> None:
        """Move the partitions on that the client left to its session."""
        for captured, partition in self._partitions.items():
            if captured in named:
                continue
            offset = partition.position.target
            if offset is None:
                if partition.turn == partition.offsets.turn:
                    continue
                partition.turn = partition.offsets.turn
                offset = positions.translate(captured, partition.captured_offset).offset
            if offset != partition.fields["fetch_offset"]:
                self._put(partition, partition.fields | {"fetch_offset": offset}, changes)

    def _leave_out(self, partition: FetchedPartition, changes: FetchChanges) -> None:
        """Ask no more for a partition. Its node stays, and is asked for what else it has, or for nothing."""
        changes.named.get(partition.leader, {}).pop(partition.target, None)
        if self.nodes[partition.leader].pop(partition.target, None) is not None:
            changes.gone.setdefault(partition.leader, []).append(partition.target)

    def _put(self, partition: FetchedPartition, fields: Tree, changes: FetchChanges) -> None:
        partition.fields = fields
        self.nodes.setdefault(partition.leader, {})[partition.target] = fields
        changes.named.setdefault(partition.leader, {})[partition.target] = fields


class FetchSessions:
    """All fetch sessions of a pass: captured ones, the replayer's own, and what connections read in them."""

    def __init__(self, captured: CapturedFetchSessions) -> None:
        self.captured = captured
        self._own: dict[NodeKey, OwnFetchSession] = {}
        self._states: dict[int, FetchState] = {}
        self._positions: dict[tuple[int, TopicPartition], ReadPosition] = {}

    def state(self, connection: int) -> FetchState:
        """Return what a captured connection reads by now."""
        state = self._states.get(connection)
        if state is None:
            state = self._states[connection] = FetchState()
        return state

    def position(self, connection: int, partition: TopicPartition) -> ReadPosition:
        """Return where a captured connection reads a partition."""
        position = self._positions.get((connection, partition))
        if position is None:
            position = self._positions[connection, partition] = ReadPosition()
        return position

    def own(self, connection: int, node: int) -> OwnFetchSession:
        """Return the session of a captured connection with a node, a new one if there is none."""
        session = self._own.get((connection, node))
        if session is None:
            session = self._own[connection, node] = OwnFetchSession()
        return session

    def own_if_any(self, connection: int, node: int) -> OwnFetchSession | None:
        """Return the session of a captured connection with a node."""
        return self._own.get((connection, node))

    def drop(self, connection: int, node: int) -> None:
        """Forget a session that no request will name again."""
        self._own.pop((connection, node), None)


def partitions_by_node(partitions: Iterable[FetchedPartition]) -> PartitionsByNode:
    """Return each node's partitions."""
    nodes: PartitionsByNode = {}
    for partition in partitions:
        nodes.setdefault(partition.leader, {})[partition.target] = partition.fields
    return nodes
