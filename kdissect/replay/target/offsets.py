"""Positions: the offset on the target that a captured offset stands for.

For each partition these rules are tried in order, and the one that was used is counted:

- *produced*: the offset is within, or right behind, a batch that this run has written;
- *fetched*: the client goes on from where its own last fetch on the target ended;
- *anchored*: as far from the start of the log as in the capture, within what the target has;
- *identity*: the same number, if the settings ask for it or nothing else is known (then within what the
  target has).

`written_batches` has the first rule. What a connection reads on from is its own (see `fetch_sessions`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.settings import Offsets
from kdissect.replay.target.written_batches import WrittenBatches


class Rule(StrEnum):
    """How an offset was translated."""

    PRODUCED = "produced"
    FETCHED = "fetched"
    ANCHORED = "anchored"
    IDENTITY = "identity"


class TranslatedOffset(NamedTuple):
    """An offset of the target, and the rule that led to it."""

    offset: int
    rule: Rule


@dataclass(slots=True)
class PartitionOffsets:
    """What is known of one partition: the ends of its log, and the batches of this run."""

    batches: WrittenBatches = field(default_factory=WrittenBatches)
    captured_start: int | None = None
    target_start: int | None = None
    target_end: int | None = None
    turn: int = 0  # counts what was learnt

    def written(self, captured: int) -> int | None:
        """Return the target's offset by the batches of this run; None for an offset before all of them."""
        return self.batches.place(captured, self.target_end)


@dataclass(slots=True)
class ClientPosition:
    """The offset at which a client goes on in a partition; None until the target has given it something."""

    offset: int | None = None


class Positions:
    """The offsets of all partitions of a pass."""

    def __init__(self, rule: Offsets, captured_starts: Mapping[TopicPartition, int]) -> None:
        """`captured_starts` are the starts of the captured logs, as far as the capture shows them."""
        self._rule = rule
        self._partitions: dict[TopicPartition, PartitionOffsets] = {}
        self._clients: dict[tuple[str, TopicPartition], ClientPosition] = {}
        self.used: dict[TopicPartition, Counter[Rule]] = {}
        self.clamped = 0  # offsets that were moved to the end of the target's log
        for partition, start in captured_starts.items():
            self.partition(partition).captured_start = start

    def partition(self, partition: TopicPartition) -> PartitionOffsets:
        """Return what is known of a partition, to be looked at again."""
        known = self._partitions.get(partition)
        if known is None:
            known = self._partitions[partition] = PartitionOffsets()
        return known

    def client(self, client: str, partition: TopicPartition) -> ClientPosition:
        """Return the place where a client goes on, to be looked at again."""
        known = self._clients.get((client, partition))
        if known is None:
            known = self._clients[client, partition] = ClientPosition()
        return known

    def add_written(self, partition: TopicPartition, captured: int, records: int, target: int) -> None:
        """Learn from a batch that both clusters acknowledged."""
        known = self.partition(partition)
        known.turn += 1
        known.batches.add(captured, records, target)

    def add_fetched(self, client: str, partition: TopicPartition, following: int) -> None:
        """Learn how far a client's fetch on the target went: `following` is the offset behind its records."""
        self.client(client, partition).offset = following

    def set_bounds(self, partition: TopicPartition, start: int = -1, end: int = -1) -> None:
        """Learn from the start of the target's log and its high watermark; below 0: not known."""
        known = self.partition(partition)
        if start >= 0 and start != known.target_start:
            known.target_start = start
            known.turn += 1
        if end >= 0 and (known.target_end is None or end > known.target_end):
            known.target_end = end
            known.turn += 1

    def translate(self, partition: TopicPartition, captured: int, client: str = "") -> TranslatedOffset:
        """Return the target's offset for a captured one.

        Offsets below 0 have a meaning of their own, and stay.
        """
        translated = self._translated(partition, captured, client)
        used = self.used.get(partition)
        if used is None:
            used = self.used[partition] = Counter()
        used[translated.rule] += 1
        return translated

    @property
    def keeps_offsets(self) -> bool:
        """Whether the target is a true copy, so that offsets stay as captured."""
        return self._rule is Offsets.IDENTITY

    def note_reading_on(self, partition: TopicPartition) -> None:
        """Count that a client reads on from where its own fetch on the target ended."""
        self.used.setdefault(partition, Counter())[Rule.FETCHED] += 1

    def _translated(self, partition: TopicPartition, captured: int, client: str) -> TranslatedOffset:
        if captured < 0 or self._rule is Offsets.IDENTITY:
            return TranslatedOffset(captured, Rule.IDENTITY)
        known = self.partition(partition)
        written = known.written(captured)
        if written is not None:
            return TranslatedOffset(written, Rule.PRODUCED)
        position = self._clients.get((client, partition))
        if position is not None and position.offset is not None:
            return TranslatedOffset(position.offset, Rule.FETCHED)
        start = known.target_start
        if start is not None and known.captured_start is not None:
            moved = start + max(captured - known.captured_start, 0)
            if known.target_end is not None and moved > known.target_end:
                self.clamped += 1
                moved = known.target_end
            return TranslatedOffset(moved, Rule.ANCHORED)
        within = min(max(captured, start or 0), captured if known.target_end is None else known.target_end)
        self.clamped += within != captured
        return TranslatedOffset(within, Rule.IDENTITY)
