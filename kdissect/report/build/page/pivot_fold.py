"""Rows of a pivot added up by slot, API, kind of wait, step and cell, all at once.

The page tries several details of a pivot until one fits. Loops over the rows took 0.55 of 1.45 s for the page
of a million exchanges. To write each of them as text, only to count its characters, took another half.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.aggregate.grouping import encode_range, group_rows
from kdissect.report.build.page.page_names import NO_REF, NOT_SINGLED_OUT

Slot = tuple[int, int, int]

SERIES_KEYS, STEP_KEYS, CELL_KEYS = 3, 4, 5
"""How many of the keys (slot, API, kind of wait, step, cell) are those of a series, a step and a cell."""


POWERS = 10 ** np.arange(1, 19)


class FoldRows(NamedTuple):
    """The rows of a pivot as arrays."""

    slots: Int64s
    """Client, broker, and connection or topic of each row."""
    keys: Int64s
    """API, kind of wait, step and cell of each row."""
    refs: Int64s
    """The packet of each row as `PageNames.packet_ref`, NO_REF for none."""
    sums: Int64s

    def take(self, rows: Int64s) -> "FoldRows":
        """Return some of the rows."""
        return FoldRows(*(column[rows] for column in self))


class FoldedRows(NamedTuple):
    """A pivot as arrays: its slots, and the rows of its cells ordered by key.

    `series`, `steps` and `cells` are the first rows of each. Each step has `totals`, and the sum at the place
    of the largest is a maximum. Each cell has a count and a packet, NO_REF for none.
    """

    slots: list[Slot]
    keys: Int64s
    series: Int64s
    steps: Int64s
    cells: Int64s
    totals: Int64s
    counts: Int64s
    refs: Int64s

    def json_size(self) -> int:
        """Return the number of characters that `lists` takes as JSON."""
        if not len(self.series):
            return len("[]")
        texts = sum(
            int(text_lengths(numbers).sum())
            for numbers in (
                self.keys[self.series, :SERIES_KEYS],
                self.keys[self.steps, STEP_KEYS - 1],
                self.keys[self.cells, CELL_KEYS - 1],
                self.counts,
                self.refs[self.refs != NO_REF],
            )
        )
        lasts = _lasts(self.totals)
        is_shown = np.arange(self.totals.shape[1]) <= lasts[:, None]
        texts += int(text_lengths(self.totals[is_shown]).sum())
        texts += len("null") * int((self.refs == NO_REF).sum())
        series, steps, cells = len(self.series), len(self.steps), len(self.cells)
        # Brackets and commas: of all series, of each, of its steps, of each step, its totals and its cells.
        around = 2 + (series - 1) + series * (2 + 3) + 2 * series + (steps - series)
        around += steps * (2 + 2) + steps * 2 + int(lasts.sum()) + steps * 2 + (3 * cells - steps)
        return around + texts

    def lists(self) -> list[list[Any]]:
        """Return the series as lists: slot, API, kind of wait, and steps with totals and cells."""
        if not len(self.series):
            return []
        refs = [None if ref == NO_REF else ref for ref in self.refs.tolist()]
        triples = [
            value
            for cell in zip(
                self.keys[self.cells, CELL_KEYS - 1].tolist(), self.counts.tolist(), refs, strict=True
            )
            for value in cell
        ]
        listed = [
            [step, total[: last + 1], triples[3 * begin : 3 * end]]
            for step, total, last, (begin, end) in zip(
                self.keys[self.steps, STEP_KEYS - 1].tolist(),
                self.totals.tolist(),
                _lasts(self.totals).tolist(),
                _ranges(self.steps, self.cells),
                strict=True,
            )
        ]
        keys = self.keys[self.series, :SERIES_KEYS].tolist()
        ranges = _ranges(self.series, self.steps)
        return [[*key, listed[begin:end]] for key, (begin, end) in zip(keys, ranges, strict=True)]


def fold(rows: FoldRows, clients: int, others: Collection[int], rest: bool, largest: int) -> FoldedRows:
    """Return the slots and the series of a pivot.

    The first `clients` clients are singled out, and `others` of connections or topics. Without `rest`, rows
    of all others are left out. The sum at `largest` is a maximum.
    """
    client, broker, other = rows.slots.T
    is_kept = np.isin(other, np.array(list(others), np.int64))
    chosen = np.arange(len(other)) if rest else np.flatnonzero(is_kept)
    if not len(chosen):
        none = np.zeros(0, np.int64)
        return FoldedRows([], none, none, none, none, none, none, none)
    who = np.where(client < clients, client, NOT_SINGLED_OUT)
    which = np.where(is_kept, other, NOT_SINGLED_OUT)
    slots, number = _numbered(np.column_stack([who, broker, which])[chosen])
    keys = np.column_stack([number, rows.keys[chosen]])
    order = np.lexsort(keys.T[::-1])  # stable, so the first row of a cell stays its first
    keys, chosen = keys[order], chosen[order]
    sums = rows.sums[chosen]
    series, steps, cells = (_starts(keys[:, :width]) for width in (SERIES_KEYS, STEP_KEYS, CELL_KEYS))
    totals = np.add.reduceat(sums, steps, axis=0)
    totals[:, largest] = np.maximum(np.maximum.reduceat(sums[:, largest], steps), 0)
    counts = np.add.reduceat(sums[:, 0], cells)
    return FoldedRows(slots, keys, series, steps, cells, totals, counts, rows.refs[chosen[cells]])


def text_lengths(numbers: Int64s) -> Int64s:
    """Return the number of characters of each number."""
    return np.searchsorted(POWERS, np.abs(numbers), side="right") + 1 + (numbers < 0)


def _numbered(slots: Int64s) -> tuple[list[Slot], Int64s]:
    """Return the distinct slots in the order in which they come first, and the number of each row's."""
    groups = group_rows(*map(encode_range, slots.T))
    by_first = np.argsort(groups.first)
    number = np.empty(groups.count, np.int64)
    number[by_first] = np.arange(groups.count)
    listed = [(client, broker, other) for client, broker, other in slots[groups.first[by_first]].tolist()]
    return listed, number[groups.of]


def _starts(keys: Int64s) -> Int64s:
    """Return the first row of each run of equal keys."""
    return np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)])


def _ranges(outer: Int64s, inner: Int64s) -> list[tuple[int, int]]:
    """Return for each run of `outer` which runs of `inner` it holds, as begin and end."""
    begins = np.searchsorted(inner, outer).tolist()
    return list(zip(begins, [*begins[1:], len(inner)], strict=True))


def _lasts(totals: Int64s) -> Int64s:
    """Return the place of the last number of each row that is not zero, the first without one."""
    present = totals != 0
    return np.where(present.any(axis=1), totals.shape[1] - 1 - present[:, ::-1].argmax(axis=1), 0)
