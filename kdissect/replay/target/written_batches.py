"""Batches of one partition that both clusters acknowledged, and the place on the target of a captured offset.

In: for each batch its captured offset, its number of records, and its offset on the target. Out: for a
captured offset the offset on the target behind as many records. Batches of several producers may stand in
another order on the target, so records are counted and batches are not looked up: whoever has read all
captured records has then read all records of the target.

Offsets between batches belong to brokers: markers that end transactions. A captured offset so many places
behind a batch is as many places behind it on the target, but never beyond the next batch or the end of the
log, as far as that is known.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import partial

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
        place = len(begins)
        if not place or begin > begins[-1]:
            first = before[-1] + counts[-1] if place else 0
        else:
            place = bisect_right(begins, begin)
            first = before[place] if place < len(before) else before[-1] + counts[-1]
            for later in range(place, len(before)):
                before[later] += records
        begins.insert(place, begin)
        counts.insert(place, records)
        before.insert(place, first)
        if len(begins) > 2 * MOST_BATCHES:  # seldom, since it moves all that stay
            for column in (begins, counts, before):
                del column[:MOST_BATCHES]

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
