"""Positions: where on the target a captured offset is.

For each partition the rules are tried in order, and the one that was used is counted:

- *produced*: the offset is within, or right behind, a batch that this run has written;
- *fetched*: the client goes on from where its own last fetch on the target ended (closed loop);
- *anchored*: as far from the start of the log as it was in the capture, within what is there;
- *identity*: the same number; what the operator asked for, or all that is left (then within what the target has).

Batches are kept sorted by captured offset. An offset between two batches, where a transaction's marker was, is the beginning of the
next one if there is one, and else the end of the one before: never further than what is known.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from kdissect.replay.settings import Offsets
from kdissect.replay.target.producers import Where

MOST_BATCHES = 1 << 16  # so many are kept of one partition at least; the oldest go first


class Rule(StrEnum):
    """How an offset was translated."""

    PRODUCED = "produced"
    FETCHED = "fetched"
    ANCHORED = "anchored"
    IDENTITY = "identity"


class Place(NamedTuple):
    """An offset of the target and how it was found."""

    offset: int
    rule: Rule


@dataclass(slots=True)
class Partition:
    """What is known of one."""

    # Batches of this run, sorted: where they were, how many records they hold, where they are.
    captured: "array[int]" = field(default_factory=partial(array, "q"))
    records: "array[int]" = field(default_factory=partial(array, "q"))
    target: "array[int]" = field(default_factory=partial(array, "q"))
    captured_start: int | None = None
    target_start: int | None = None
    target_end: int | None = None
    turn: int = 0  # counts what was learnt


@dataclass(slots=True)
class Following:
    """Where a client goes on that was given something; None until then."""

    offset: int | None = None


class Positions:
    """All partitions of this run."""

    def __init__(self, rule: Offsets) -> None:
        self._rule = rule
        self._partitions: dict[Where, Partition] = {}
        self._following: dict[
            tuple[str, Where], Following
        ] = {}  # (whose, partition) -> the next offset to fetch
        self.used: dict[Where, Counter[Rule]] = {}
        self.clamped = 0

    def wrote(self, where: Where, captured: int, records: int, target: int) -> None:
        """Take in a batch that both clusters acknowledged."""
        known = self.known(where)
        known.turn += 1
        at = len(known.captured)
        if at and captured <= known.captured[-1]:
            at = bisect_right(known.captured, captured)
        for column, value in ((known.captured, captured), (known.records, records), (known.target, target)):
            column.insert(at, value)
        if len(known.captured) > 2 * MOST_BATCHES:  # seldom, since it moves all that stay
            for column in (known.captured, known.records, known.target):
                del column[:MOST_BATCHES]

    def fetched(self, whose: str, where: Where, following: int) -> None:
        """Take in how far a client's fetch on the target went."""
        self.following(whose, where).offset = following

    def following(self, whose: str, where: Where) -> Following:
        """Give the place where a client goes on, to be looked at again."""
        found = self._following.get((whose, where))
        if found is None:
            found = self._following[whose, where] = Following()
        return found

    def captured_start(self, where: Where, offset: int) -> None:
        """Take in a start of the log as captured; the first one seen is kept."""
        known = self.known(where)
        if known.captured_start is None and offset >= 0:
            known.captured_start = offset
            known.turn += 1

    def target_bounds(self, where: Where, start: int, end: int) -> None:
        """Take in the start of the target's log and its high watermark."""
        known = self.known(where)
        if start >= 0 and start != known.target_start:
            known.target_start = start
            known.turn += 1
        if end >= 0 and (known.target_end is None or end > known.target_end):
            known.target_end = end
            known.turn += 1

    def translate(self, where: Where, captured: int, whose: str = "") -> Place:
        """Give the target's offset for a captured one. Offsets below 0 are questions, and stay."""
        place = self._translated(where, captured, whose)
        used = self.used.get(where)
        if used is None:
            used = self.used[where] = Counter()
        used[place.rule] += 1
        return place

    def _translated(self, where: Where, captured: int, whose: str) -> Place:
        if captured < 0 or self._rule is Offsets.IDENTITY:
            return Place(captured, Rule.IDENTITY)
        known = self.known(where)
        produced = _within(known, captured)
        if produced is not None:
            return Place(produced, Rule.PRODUCED)
        fetched = self._following.get((whose, where))
        if fetched is not None and fetched.offset is not None:
            return Place(fetched.offset, Rule.FETCHED)
        start = known.target_start
        if start is not None and known.captured_start is not None:
            moved = start + max(captured - known.captured_start, 0)
            if known.target_end is not None and moved > known.target_end:
                self.clamped += 1
                moved = known.target_end
            return Place(moved, Rule.ANCHORED)
        within = min(max(captured, start or 0), captured if known.target_end is None else known.target_end)
        self.clamped += within != captured
        return Place(within, Rule.IDENTITY)

    def known(self, where: Where) -> Partition:
        """Give what is known of a partition, to be looked at again."""
        known = self._partitions.get(where)
        if known is None:
            known = self._partitions[where] = Partition()
        return known


def _within(known: Partition, captured: int) -> int | None:
    """Find an offset among batches; None if it is before all of them."""
    at = bisect_right(known.captured, captured) - 1
    if at < 0:
        return None
    inside, records = captured - known.captured[at], known.records[at]
    if inside < records:
        return known.target[at] + inside
    if at + 1 < len(known.captured) and inside > records:
        return known.target[at + 1]
    return known.target[at] + records
