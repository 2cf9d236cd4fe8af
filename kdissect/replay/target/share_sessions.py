"""Members of share groups (KIP-932): what their sessions are about, and what the target handed out to them.

A share session belongs to a member and a broker, and goes by one connection; a member's fetches from several
captured brokers become one session with each node of the target. The target hands out records as it likes, so
captured offsets mean nothing: whenever the captured member acknowledges records of a partition, all that the
target has handed out of it by then is acknowledged, in the captured proportions of accepted, released and
rejected. All partitions here have the names of the target.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kdissect.replay.effects import Gate
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.target.fetch_sessions import EPOCH_LIMIT
from kdissect.replay.target.members import LiveMember

GAP, ACCEPT, RENEW = 0, 1, 4  # acknowledge_types


class AcknowledgedRun(NamedTuple):
    """So many records in a row that are acknowledged alike."""

    records: int
    kind: int  # of acknowledge_types


Acknowledgements: TypeAlias = dict[TopicPartition, list[AcknowledgedRun]]
"""Records that a captured request acknowledges, in its order."""

OffsetRange: TypeAlias = tuple[int, int]
"""First and last offset."""


@dataclass(slots=True)
class OwnShareSession:
    """A session of the replayer's own with one node."""

    epoch: int = INITIAL_EPOCH
    partitions: set[TopicPartition] = field(default_factory=set)  # that the node was told
    unlisted: set[TopicPartition] = field(default_factory=set)  # of these, those that no response has listed
    acquired: dict[TopicPartition, list[OffsetRange]] = field(default_factory=dict)  # not acknowledged yet
    turn: Gate | None = None  # opens when the last request has been answered

    def next_epoch(self) -> int:
        """Return the epoch of the next request."""
        epoch, self.epoch = self.epoch, 1 if self.epoch >= EPOCH_LIMIT else self.epoch + 1
        return epoch

    def tell(self, partitions: set[TopicPartition]) -> None:
        """Note what the next request tells the node that the session is about."""
        self.unlisted = (self.unlisted & partitions) | (partitions - self.partitions)
        self.partitions = set(partitions)

    def forget(self) -> None:
        """Begin anew: the target has given free what the member held."""
        self.epoch = INITIAL_EPOCH
        self.partitions.clear()
        self.unlisted.clear()
        self.acquired.clear()

    def acknowledge(
        self, partition: TopicPartition, runs: Sequence[AcknowledgedRun], renewing: bool
    ) -> list[Tree]:
        """Return batches that acknowledge all acquired records of a partition, as the captured `runs` do."""
        acquired = self.acquired.pop(partition, [])
        captured = sum(run.records for run in runs)
        size = sum(last - first + 1 for first, last in acquired)
        if not captured or not size:
            return []
        kinds = _spread(runs, captured, size, renewing)
        batches: list[Tree] = []
        for first, last in acquired:
            types = [next(kinds) for _ in range(first, last + 1)]
            batches.append({"first_offset": first, "last_offset": last, "acknowledge_types": types})
            if renewing:  # what is renewed stays acquired
                kept = [(first + at, first + at) for at, kind in enumerate(types) if kind == RENEW]
                self.acquired.setdefault(partition, []).extend(kept)
        return batches


def _spread(runs: Sequence[AcknowledgedRun], captured: int, size: int, renewing: bool) -> Iterator[int]:
    """Yield `size` kinds, spread as the `captured` ones are in the runs.

    A captured gap stands for a record here.
    """
    number, end = 0, runs[0].records
    for at in range(size):
        while at * captured // size >= end:
            number += 1
            end += runs[number].records
        kind = runs[number].kind
        yield ACCEPT if kind == GAP or (kind == RENEW and not renewing) else kind


@dataclass(slots=True)
class ShareMember:
    """The sessions of one member."""

    captured: dict[str, set[TopicPartition]] = field(
        default_factory=dict
    )  # server -> what its session is about
    sessions: dict[int, OwnShareSession] = field(default_factory=dict)  # by node of the target

    def own(self, nodes: Iterable[int]) -> dict[int, OwnShareSession]:
        """Return the sessions with some nodes, in their order, new ones where there are none."""
        return {node: self.sessions.setdefault(node, OwnShareSession()) for node in sorted(nodes)}

    def follow(self, server: str, body: Tree, names: Names) -> set[TopicPartition]:
        """Learn from a captured request, and return what its session is about; nothing once closed."""
        if body["share_session_epoch"] == FINAL_EPOCH:
            self.captured.pop(server, None)
            return set()
        known = self.captured.setdefault(server, set())
        if body["share_session_epoch"] == INITIAL_EPOCH:
            known.clear()
        known.update((name, each["partition_index"]) for name, each in _partitions(body["topics"], names))
        for topic in body.get("forgotten_topics_data") or ():
            name = names.captured_topic(topic) or ""
            known.difference_update((names.topic(name), each) for each in topic["partitions"])
        return known


@dataclass(slots=True)
class GroupSupply:
    """Records that a group was handed out so far. One that is handed out again counts again."""

    captured: Counter[TopicPartition] = field(
        default_factory=Counter
    )  # in the capture, by fetches that had their turn
    handed_out: Counter[TopicPartition] = field(default_factory=Counter)  # by the target


class ShareMembers:
    """The members of all share groups of a pass, by captured group and the member id that the target gave."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str], ShareMember] = {}
        self._supplies: dict[str, GroupSupply] = defaultdict(GroupSupply)

    def supply(self, group: str) -> GroupSupply:
        """Return how many records a group has had."""
        return self._supplies[group]

    def of(self, live: LiveMember) -> ShareMember:
        """Return the sessions of a member."""
        return self._members.setdefault((live.group, live.member_id), ShareMember())


def acknowledgements_in(body: Tree, names: Names) -> Acknowledgements:
    """Return what a captured request acknowledges, without its offsets."""
    found: Acknowledgements = {}
    for name, each in _partitions(body["topics"], names):
        for batch in each["acknowledgement_batches"]:
            types = batch["acknowledge_types"]
            count = batch["last_offset"] - batch["first_offset"] + 1
            if len(types) == 1 and count > 0:
                runs = [AcknowledgedRun(count, types[0])]
            else:
                runs = [AcknowledgedRun(1, kind) for kind in types]
            found.setdefault((name, each["partition_index"]), []).extend(runs)
    return found


def _partitions(topics: Iterable[Tree], names: Names) -> Iterator[tuple[str, Tree]]:
    for topic in topics:
        name = names.captured_topic(topic)
        if name:
            yield from ((names.topic(name), each) for each in topic["partitions"])
