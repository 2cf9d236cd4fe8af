"""Positions: the offset on the target that a captured offset stands for, and how far groups have committed.

For each partition these rules are tried in order, and the one that was used is counted:

- *produced*: the offset is within, or right behind, a batch that this run has written (`WrittenBatches`);
- *fetched*: the client goes on from where its own last fetch on the target ended;
- *anchored*: as far from the start of the log as in the capture, within what the target has;
- *identity*: the same number, if the settings ask for it or nothing else is known (then within what the
  target has).

Batches of several producers may stand in another order on the target, so records are counted and batches
are not looked up: whoever has read all captured records has then read all records of the target. Offsets
between batches belong to brokers: markers that end transactions. A captured offset so many places behind a
batch is as many places behind it on the target, but never beyond the next batch or the end of the log, as
far as that is known.

The last commit of a group (`GroupCommits`) is translated anew when a pass has ended, since more is known of
the logs in the end. The position of a connection's next read is its own (see `fetch_sessions`).
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_reads import FIRST_INCARNATION
from kdissect.replay.settings import Offsets

MOST_BATCHES = 1 << 16  # so many are kept of one partition at least; the oldest go first


@dataclass(slots=True)
class BatchRanges:
    """Batches sorted by their offset on one of the two clusters."""

    begins: "array[int]" = field(default_factory=partial(array, "q"))
    records: "array[int]" = field(default_factory=partial(array, "q"))
    before: "array[int]" = field(default_factory=partial(array, "q"))  # records in all batches before

    def add(self, begin: int, records: int) -> None:
        """Add a batch; most come in the order of their offsets."""
        begins, counts, before = self.begins, self.records, self.before
        if not begins or begin > begins[-1]:
            before.append(before[-1] + counts[-1] if begins else 0)
            begins.append(begin)
            counts.append(records)
        else:
            self._insert(begin, records)
        if len(begins) > 2 * MOST_BATCHES:  # seldom, since it moves all that stay
            for column in (begins, counts, before):
                del column[:MOST_BATCHES]

    def _insert(self, begin: int, records: int) -> None:
        """Add a batch that does not come last."""
        begins, counts, before = self.begins, self.records, self.before
        place = bisect_right(begins, begin)
        first = before[place] if place < len(before) else before[-1] + counts[-1]
        for later in range(place, len(before)):
            before[later] += records
        begins.insert(place, begin)
        counts.insert(place, records)
        before.insert(place, first)

    def records_between(self, start: int, stop: int) -> int:
        """Return how many records have offsets from `start` up to `stop`."""
        return max(self._records_before(stop) - self._records_before(start), 0)

    def _records_before(self, offset: int) -> int:
        number = bisect_right(self.begins, offset) - 1
        if number < 0:
            return self.before[0] if self.before else 0
        return self.before[number] + min(offset - self.begins[number], self.records[number])

    def end(self, place: int) -> int:
        """Return the offset behind a batch."""
        return self.begins[place] + self.records[place]


@dataclass(slots=True)
class WrittenBatches:
    """The same batches on both clusters."""

    captured: BatchRanges = field(default_factory=BatchRanges)
    target: BatchRanges = field(default_factory=BatchRanges)

    def add(self, captured: int, records: int, target: int) -> None:
        """Add a batch by its captured offset and its offset on the target."""
        self.captured.add(captured, records)
        self.target.add(target, records)

    def place(self, captured: int, target_end: int | None) -> int | None:
        """Return the target's offset for a captured one; None for an offset before all batches.

        `target_end` is the end of the target's log, as far as it is known.
        """
        batches = self.captured
        number = bisect_right(batches.begins, captured) - 1
        if number < 0:
            return None
        inside, records = captured - batches.begins[number], batches.records[number]
        rank = batches.before[number] + min(inside, records)
        return self._behind(rank, inside == 0, max(inside - records, 0), target_end)

    def _behind(self, rank: int, at_batch: bool, markers: int, target_end: int | None) -> int | None:
        """Return the offset on the target behind so many records, and so many markers behind the last one.

        `at_batch`: the captured offset is that of a batch, so all markers before it are passed.
        """
        batches = self.target
        number = bisect_right(batches.before, rank) - 1
        if number < 0:
            return None
        inside = rank - batches.before[number]
        if inside < batches.records[number]:
            if inside or not number or at_batch:
                return batches.begins[number] + inside
            return min(batches.end(number - 1) + markers, batches.begins[number])
        end = batches.end(number)
        return end + min(markers, max((target_end or 0) - end, 0))


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
    """Facts about one partition: the ends of its log, and the batches of this run."""

    batches: WrittenBatches = field(default_factory=WrittenBatches)
    captured_start: int | None = None
    target_start: int | None = None
    target_end: int | None = None
    turn: int = 0  # counts what was learnt
    incarnation: int = FIRST_INCARNATION  # of the topic, that the batches belong to

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

    def add_written(
        self,
        partition: TopicPartition,
        captured: int,
        records: int,
        target: int,
        incarnation: int = FIRST_INCARNATION,
    ) -> None:
        """Learn from a batch that both clusters acknowledged.

        The first one of a later incarnation of its topic puts an end to the batches of the one before.
        """
        known = self.partition(partition)
        if incarnation < known.incarnation:
            return
        if incarnation > known.incarnation:
            known.incarnation, known.batches, known.target_end = incarnation, WrittenBatches(), None
        known.turn += 1
        known.batches.add(captured, records, target)

    def note_written(
        self,
        partition: TopicPartition,
        captured: int | None,
        records: int,
        target: int,
        incarnation: int = FIRST_INCARNATION,
    ) -> None:
        """Learn from a batch that the target wrote; without a captured offset only where its log ends."""
        if captured is not None:
            self.add_written(partition, captured, records, target, incarnation)
        self.set_bounds(partition, end=target + records)

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
        """Return whether the target is a true copy, so that offsets stay as captured."""
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


@dataclass(slots=True)
class GroupCommit:
    """The last commits of a group in a partition."""

    captured_index: int = -1  # the captured request
    captured: int = -1  # its offset
    replayed_index: int = -1
    replayed: int | None = None  # the offset that the target took


class GroupCommits:
    """The commits of a pass. Names are those of the capture."""

    def __init__(self) -> None:
        self._commits: dict[tuple[str, TopicPartition], GroupCommit] = {}

    def note_captured(self, index: int, group: str, partition: TopicPartition, offset: int) -> None:
        """Note a commit that the captured cluster took."""
        commit = self._commits.setdefault((group, partition), GroupCommit())
        if index > commit.captured_index:
            commit.captured_index, commit.captured = index, offset

    def note_replayed(self, index: int, group: str, partition: TopicPartition, offset: int) -> None:
        """Note a commit that the target took."""
        commit = self._commits.setdefault((group, partition), GroupCommit())
        if index > commit.replayed_index:
            commit.replayed_index, commit.replayed = index, offset

    def summary(self, positions: Positions) -> list[dict[str, Any]]:
        """Return each group's last commits; `short` counts records that were not committed."""
        rows = []
        for (group, partition), commit in sorted(self._commits.items()):
            known = positions.partition(partition)
            expected = known.written(commit.captured) if commit.captured_index > known.incarnation else None
            short = 0
            if expected is not None:
                short = known.batches.target.records_between(commit.replayed or 0, expected)
            rows.append(
                {
                    "group": group,
                    "partition": f"{partition[0]}-{partition[1]}",
                    "captured": commit.captured,
                    "expected": expected,
                    "replayed": commit.replayed,
                    "short": short,
                }
            )
        return rows
