"""Members of share groups (KIP-932): what their sessions are about, and what the target handed out to them.

A share session belongs to a member and a broker, and goes by one connection; a member's fetches from several captured brokers
become one session with each node of the target. Records are handed out by the target as it likes, so captured offsets say nothing:
whenever the captured member acknowledges records of a partition, all that the target has handed out of it by then is
acknowledged, in the captured proportions of accepted, released and rejected. All partitions here have the names of the target.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kdissect.replay.rewrite.roles import Names, Tree
from kdissect.replay.target.producers import Where

FINAL_EPOCH, INITIAL_EPOCH, EPOCH_LIMIT = -1, 0, (1 << 31) - 1
GAP, ACCEPT, RENEW = 0, 1, 4
Run = tuple[int, int]  # how many records are acknowledged how
Acks = dict[Where, list[Run]]
Range = tuple[int, int]  # first and last offset


@dataclass(slots=True)
class OwnShareSession:
    """One with a node of the target."""

    epoch: int = INITIAL_EPOCH
    told: set[Where] = field(default_factory=set)
    acquired: dict[Where, list[Range]] = field(default_factory=dict)  # not acknowledged yet

    def next_epoch(self) -> int:
        """Give the epoch of the next request."""
        epoch, self.epoch = self.epoch, 1 if self.epoch >= EPOCH_LIMIT else self.epoch + 1
        return epoch

    def forget(self) -> None:
        """Begin anew: the target has given free what the member held."""
        self.epoch = INITIAL_EPOCH
        self.told.clear()
        self.acquired.clear()

    def acknowledge(self, where: Where, runs: Sequence[Run], renewing: bool) -> list[Tree]:
        """Acknowledge all that was handed out of a partition, in the proportions of the captured `runs`."""
        held = self.acquired.pop(where, [])
        total = sum(count for count, _ in runs)
        size = sum(last - first + 1 for first, last in held)
        if not total or not size:
            return []
        kinds = _spread(runs, total, size, renewing)
        batches: list[Tree] = []
        for first, last in held:
            types = [next(kinds) for _ in range(first, last + 1)]
            batches.append({"first_offset": first, "last_offset": last, "acknowledge_types": types})
            if renewing:  # what is renewed stays held
                kept = [(first + at, first + at) for at, kind in enumerate(types) if kind == RENEW]
                self.acquired.setdefault(where, []).extend(kept)
        return batches


def _spread(runs: Sequence[Run], total: int, size: int, renewing: bool) -> Iterator[int]:
    """Give so many kinds, spread as they are in the runs. What was a gap there is a record here, or is not asked about."""
    number, end = 0, runs[0][0]
    for at in range(size):
        while at * total // size >= end:
            number += 1
            end += runs[number][0]
        kind = runs[number][1]
        yield ACCEPT if kind == GAP or (kind == RENEW and not renewing) else kind


@dataclass(slots=True)
class ShareMember:
    """All of one member."""

    sets: dict[str, set[Where]] = field(default_factory=dict)  # captured server -> what its session is about
    sessions: dict[int, OwnShareSession] = field(default_factory=dict)  # by node of the target

    def wanted(self, server: str, body: Tree, names: Names) -> set[Where]:
        """Give all that the captured session with a server is about; empty when it is closed."""
        if body["share_session_epoch"] == FINAL_EPOCH:
            self.sets.pop(server, None)
            return set()
        known = self.sets.setdefault(server, set())
        if body["share_session_epoch"] == INITIAL_EPOCH:
            known.clear()
        known.update((name, each["partition_index"]) for name, each in _partitions(body["topics"], names))
        for topic in body.get("forgotten_topics_data") or ():
            name = names.captured_topic(topic) or ""
            known.difference_update((names.topic(name), each) for each in topic["partitions"])
        return known


def acknowledged(body: Tree, names: Names) -> Acks:
    """Give what a captured request acknowledges, without its offsets."""
    found: Acks = {}
    for name, each in _partitions(body["topics"], names):
        for batch in each["acknowledgement_batches"]:
            types = batch["acknowledge_types"]
            count = batch["last_offset"] - batch["first_offset"] + 1
            runs = [(count, types[0])] if len(types) == 1 and count > 0 else [(1, kind) for kind in types]
            found.setdefault((name, each["partition_index"]), []).extend(runs)
    return found


def _partitions(topics: Iterable[Tree], names: Names) -> Iterator[tuple[str, Tree]]:
    for topic in topics:
        name = names.captured_topic(topic)
        if name:
            yield from ((names.topic(name), each) for each in topic["partitions"])
