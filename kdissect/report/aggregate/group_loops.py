"""Compiled loops that number rows by group and add values up by group.

In come the keys of rows as one number each, or the group of each row, out go numbers of groups, sums and
extremes. Each loop takes the place of several passes of NumPy over all rows: numbering and finding first rows
took 9 ns a row and takes 3, a sum took 1.5 and takes 0.6. `grouping` calls them for many rows, where loops
are compiled, and is the plain way for few rows, since loading a loop takes longer than those.
"""

import secrets

import numpy as np

from kdissect.array_types import Bools, Int32s, Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.many_rows import read_only

HIGHEST = (1 << 63) - 1
LOWEST = -HIGHEST - 1
"""The ends of int64: what stands for the lowest and the highest of no numbers."""

SLOTS_A_ROW = 2  # of the hash table, at least
# Another one in each process, so that no capture can fill one chain of the hash table on purpose.
_MULTIPLIER = secrets.randbits(63) | 1


@jit_flat
def fold_codes(keys: Int64s, numbers: Int64s, factor: int) -> None:
    """Append a column of codes, from -1 to factor - 2, to the keys of all rows."""
    for row in range(len(keys)):
        keys[row] = keys[row] * factor + numbers[row] + 1


@jit_flat
def encode_distances(values: Int64s, present: Bools, distances: Int64s) -> tuple[int, int]:
    """Fill `distances` with those from the lowest value, -1 where not `present`. Return lowest and highest.

    There is a value at least. NumPy goes through the values five times for that.
    """
    lowest, highest = values[0], values[0]
    for row in range(len(values)):
        lowest, highest = min(lowest, values[row]), max(highest, values[row])
    for row in range(len(values)):
        distances[row] = values[row] - lowest if present[row] else -1
    return int(lowest), int(highest)


@jit_flat
def number_direct(keys: Int64s, table: Int32s, of: Int64s, first: Int64s) -> int:
    """Number keys in the order of their first rows. Return how many differ.

    `of` gets the number of each row, `first` the first row of each number. `table` is -1 for each possible
    key. Numbers in ascending order of keys need two passes, and up to four times as long.
    """
    count = 0
    for row in range(len(keys)):
        number = int(table[keys[row]])
        if number < 0:
            number = count
            table[keys[row]] = count
            first[count] = row
            count += 1
        of[row] = number
    return count


@jit_flat
def number_hashed(keys: Int64s, multiplier: int, slots: Int32s, of: Int64s, first: Int64s) -> int:
    """Number keys in the order of their first rows. Return how many differ.

    `slots` is an empty hash table (-1) of a power of two, larger than the number of rows. The others are
    those of `number_direct`.
    """
    mask, bits = len(slots) - 1, 0
    while (1 << bits) < len(slots):
        bits += 1
    count, number = 0, -1
    for row in range(len(keys)):
        key = keys[row]
        if number < 0 or keys[first[number]] != key:
            slot = np.int64((np.uint64(key) * np.uint64(multiplier)) >> np.uint64(64 - bits))
            while slots[slot] >= 0 and keys[first[slots[slot]]] != key:
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = count
                first[count] = row
                count += 1
            number = int(slots[slot])
        of[row] = number
    return count


@jit_flat
def add_rows(of: Int64s, values: Int64s, sums: Int64s) -> None:
    """Add each row's value to the sum of its group."""
    for row in range(len(of)):
        sums[of[row]] += values[row]


@jit_flat
def count_rows(of: Int64s, mask: Bools, counts: Int64s) -> None:
    """Count the rows of each group that are in a mask."""
    for row in range(len(of)):
        counts[of[row]] += mask[row]


@jit_flat
def lower_rows(of: Int64s, values: Int64s, present: Bools, lowest: Int64s) -> None:
    """Lower `lowest` of each group to the lowest of its present values."""
    for row in range(len(of)):
        if present[row] and values[row] < lowest[of[row]]:
            lowest[of[row]] = values[row]


@jit_flat
def raise_rows(of: Int64s, values: Int64s, present: Bools, highest: Int64s) -> None:
    """Raise `highest` of each group to the highest of its present values."""
    for row in range(len(of)):
        if present[row] and values[row] > highest[of[row]]:
            highest[of[row]] = values[row]


@jit_flat
def find_lowest(of: Int64s, values: Int64s, lowest: Int64s, first: Int64s, tied: Bools) -> None:
    """Find the first row of each group that has its lowest value, and whether another row has it as well.

    `lowest` is the highest number for each group. A group that has no lower one counts as tied.
    """
    for row in range(len(of)):
        group = of[row]
        if values[row] < lowest[group]:
            lowest[group], first[group], tied[group] = values[row], row, False
        elif values[row] == lowest[group]:
            tied[group] = True


@jit_flat
def keep_lowest(
    rows: Int64s, of: Int64s, values: Int64s, lowest: Int64s, kept_rows: Int64s, kept_of: Int64s
) -> int:
    """Keep the rows that have the lowest value of their group, with their groups. Return how many they are.

    `rows`, `of` and `values` are as long as each other. `lowest` is the highest number for each group.
    """
    count = 0
    for index in range(len(rows)):
        lowest[of[index]] = min(lowest[of[index]], values[index])
    for index in range(len(rows)):
        if values[index] == lowest[of[index]]:
            kept_rows[count], kept_of[count] = rows[index], of[index]
            count += 1
    return count


def number_keys(keys: Int64s, bound: int, direct: bool) -> tuple[Int64s, Int64s]:
    """Return the number of each key, 0 to bound - 1, and the first row of each number, ascending.

    They are found by a table of all possible keys if `direct`, else by a hash table.
    """
    of, first = np.empty(len(keys), np.int64), np.empty(min(bound, len(keys)), np.int64)
    if direct:
        count = number_direct(read_only(keys), np.full(bound, -1, np.int32), of, first)
    else:
        slots = np.full(1 << (SLOTS_A_ROW * max(1, len(keys)) - 1).bit_length(), -1, np.int32)
        count = number_hashed(read_only(keys), _MULTIPLIER, slots, of, first)
    return of, first[:count]


def call_all() -> None:
    """Call every loop once, so that it is compiled and kept."""
    none, mask, room = read_only(np.zeros(1, np.int64)), read_only(np.zeros(1, bool)), np.zeros(1, np.int64)
    fold_codes(room, none, 1)
    encode_distances(none, mask, room)
    for direct in (True, False):
        number_keys(none, 1, direct)
    add_rows(none, none, room)
    count_rows(none, mask, room)
    lower_rows(none, none, mask, room)
    raise_rows(none, none, mask, room)
    find_lowest(none, none, room, room, np.zeros(1, bool))
    keep_lowest(none, none, none, room, room, room)
