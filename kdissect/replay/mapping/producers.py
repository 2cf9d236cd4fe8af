"""Producer ids, epochs and sequence numbers: those of the target in the place of the captured ones.

A captured (producer id, epoch) stands for an *identity* that the target issued in this run: by the replayed InitProducerId or
EndTxn (KIP-890) whose captured answer told it, or by one that the replayer asks for because the capture begins later. An
epoch that an idempotent client raised by itself (KIP-360) is raised alike.

Sequences are counted anew for each identity and partition, so that holes in the capture leave none on the target. The captured
number only tells a retry from a new batch. When a batch fails, those under way behind it fail too; once nothing is under way,
counting goes on behind the last batch that the target took.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from kdissect.replay.rewriting.batches import next_sequence
from kdissect.replay.steps import Gate

Key = tuple[int, int]  # captured producer id and epoch
Where = tuple[str, int]  # captured topic and partition


class Identity(NamedTuple):
    """A producer id and epoch of the target."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Numbering:
    """Sequences of one identity in one partition."""

    following: int = 0
    taken: int = 0  # the number after the last batch that the target took
    under_way: int = 0
    link: int | None = None  # the captured connection that sent last
    gate: Gate = field(default_factory=Gate)  # opens when nothing is under way


class Producers:
    """All of this run."""

    def __init__(self) -> None:
        self._identities: dict[Key, Identity] = {}
        self._numberings: dict[tuple[Identity, Where], Numbering] = {}
        self._taken: dict[
            tuple[int, Where], bool
        ] = {}  # (captured request, partition) -> whether the target took it
        self.asking: dict[Key, Gate] = {}

    def learn(self, key: Key, identity: Identity) -> None:
        """Take in that a captured id stands for one of the target."""
        self._identities[key] = identity

    def identity(self, key: Key) -> Identity | None:
        """Give what a captured id stands for."""
        return self._identities.get(key)

    def raised(self, key: Key) -> Identity | None:
        """Give the identity of an epoch that an idempotent client raised by itself."""
        earlier = [epoch for pid, epoch in self._identities if pid == key[0] and epoch < key[1]]
        if not earlier:
            return None
        base = self._identities[key[0], max(earlier)]
        identity = Identity(base.producer_id, base.producer_epoch + key[1] - max(earlier))
        self.learn(key, identity)
        return identity

    def numbering(self, identity: Identity, where: Where) -> Numbering:
        """Give the numbering of a partition."""
        return self._numberings.setdefault((identity, where), Numbering())

    def number(self, numbering: Numbering, records: int, connection: int) -> int:
        """Give a batch its number."""
        if not numbering.under_way:
            numbering.following = numbering.taken
            numbering.gate = Gate()
        sequence = numbering.following
        numbering.following = next_sequence(sequence, records)
        numbering.under_way += 1
        numbering.link = connection
        return sequence

    def ended(self, numbering: Numbering, sequence: int, records: int, taken: bool) -> None:
        """Take in what became of a batch."""
        numbering.under_way -= 1
        if taken:
            numbering.taken = next_sequence(sequence, records)
        if not numbering.under_way:
            numbering.gate.open()

    def note(self, index: int, where: Where, taken: bool) -> None:
        """Note whether the target took what a captured request had for a partition."""
        self._taken[index, where] = taken

    def took(self, index: int, where: Where) -> bool | None:
        """Tell whether the target took it; None: it was never sent, or nobody knows."""
        return self._taken.get((index, where))
