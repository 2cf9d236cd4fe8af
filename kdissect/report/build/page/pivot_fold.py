"""Rows of a pivot added up by slot, API, kind of wait, step and cell, all at once.

The page tries several details of a pivot until one fits. Loops over the rows took 0.55 of 1.45 s for the page
of a million exchanges.
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


def fold(
    rows: FoldRows, clients: int, others: Collection[int], rest: bool, largest: int
) -> tuple[list[Slot], list[list[Any]]]:
    """Return the slots and the series of a pivot.

    The first `clients` clients are singled out, and `others` of connections or topics. Without `rest`, rows
    of all others are left out. The sum at `largest` is a maximum.
    """
    client, broker, other = rows.slots.T
    is_kept = np.isin(other, np.array(list(others), np.int64))
    chosen = np.arange(len(other)) if rest else np.flatnonzero(is_kept)
    if not len(chosen):
        return [], []
    who = np.where(client < clients, client, NOT_SINGLED_OUT)
    which = np.where(is_kept, other, NOT_SINGLED_OUT)
    slots, number = _numbered(np.column_stack([who, broker, which])[chosen])
    keys = np.column_stack([number, rows.keys[chosen]])
    order = np.lexsort(keys.T[::-1])  # stable, so the first row of a cell stays its first
    keys, chosen = keys[order], chosen[order]
    sums = rows.sums[chosen]
    series, steps, cells = (_starts(keys[:, :width]) for width in (SERIES_KEYS, STEP_KEYS, CELL_KEYS))
    counts = np.add.reduceat(sums[:, 0], cells).tolist()
    refs = [None if ref == NO_REF else ref for ref in rows.refs[chosen[cells]].tolist()]
    triples = [
        value
        for cell in zip(keys[cells, CELL_KEYS - 1].tolist(), counts, refs, strict=True)
        for value in cell
    ]
    totals = np.add.reduceat(sums, steps, axis=0)
    totals[:, largest] = np.maximum(np.maximum.reduceat(sums[:, largest], steps), 0)
    listed = [
        [step, total, triples[3 * begin : 3 * end]]
        for step, total, (begin, end) in zip(
            keys[steps, STEP_KEYS - 1].tolist(), _trimmed(totals), _ranges(steps, cells), strict=True
        )
    ]
    return slots, [
        [*key, listed[begin:end]]
        for key, (begin, end) in zip(keys[series, :SERIES_KEYS].tolist(), _ranges(series, steps), strict=True)
    ]


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


def _trimmed(totals: Int64s) -> list[list[int]]:
    """Return rows without the zeros at their ends, each with one number at least."""
    present = totals != 0
    last = np.where(present.any(axis=1), totals.shape[1] - 1 - present[:, ::-1].argmax(axis=1), 0)
    return [row[: end + 1] for row, end in zip(totals.tolist(), last.tolist(), strict=True)]
