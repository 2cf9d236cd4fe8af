"""The newest connection of each 4-tuple: a table from the bytes of endpoints to rows.

A task may have 5,000 connections with a piece each in every split. Looking 4-tuples up in a dictionary of
Python took 300 ns a piece, most of it to make objects. A table of numbers with open addressing takes 25, if
loops are compiled.
"""

import secrets

import numpy as np

from kdissect.array_types import Int64s
from kdissect.jit.decorators import jit_flat, jit_inline
from kdissect.jit.rows import COMPILED, Records
from kdissect.streams.endpoints import KEY

WORDS = KEY.itemsize // 8
FIRST_SLOTS = 64  # a power of two
FREE = -2  # in place of a row; -1 is the row of a key that was removed
HASH_SHIFT = 32  # the higher half of a product depends on all bits of a key


class NewestRows:
    """Rows by the bytes of their endpoints."""

    def __init__(self, compiled: bool = COMPILED) -> None:
        self._compiled = compiled
        self._row_of: dict[bytes, int] = {}  # unless compiled
        self._make_slots(FIRST_SLOTS)

    def find(self, keys: Records) -> Int64s:
        """Return the row of each key (rows of KEY), -1 if there is none."""
        if not self._compiled:
            return np.array([self._row_of.get(key, -1) for key in _bytes_of(keys)], np.int64)
        rows = np.empty(len(keys), np.int64)
        find_rows(_words_of(keys), self._multipliers, self._keys, self._rows, rows)
        return rows

    def put(self, keys: Records, rows: Int64s) -> None:
        """Set the row of each key; of equal keys the last one counts."""
        if not self._compiled:
            self._row_of.update(zip(_bytes_of(keys), rows.tolist(), strict=True))
            return
        if 2 * (self._used + len(keys)) > len(self._rows):
            self._grow(len(keys))
        self._used += put_rows(_words_of(keys), self._multipliers, self._keys, self._rows, rows)

    def remove(self, keys: Records, rows: Int64s) -> None:
        """Remove keys that have these rows; others stay."""
        mine = np.flatnonzero(self.find(keys) == rows)
        if self._compiled:
            self.put(keys[mine], np.full(len(mine), -1))
            return
        for key in _bytes_of(keys[mine]):
            self._row_of.pop(key, None)

    def rows(self) -> Int64s:
        """Return the rows of all keys, in no order."""
        if not self._compiled:
            return np.array(list(self._row_of.values()), np.int64)
        return self._rows[self._rows >= 0]

    def _make_slots(self, count: int) -> None:
        self._used = 0
        self._keys, self._rows = np.zeros((count, WORDS), np.int64), np.full(count, FREE)
        # Random multipliers for every table, so that no capture can fill one chain of it on purpose.
        words = [secrets.randbits(63) | 1 for _ in range(WORDS)]
        self._multipliers = np.array(words, np.int64)

    def _grow(self, more: int) -> None:
        """Make room for more keys, and leave out those that were removed."""
        kept = self._rows >= 0
        keys, rows = self._keys[kept], self._rows[kept]
        self._make_slots(max(FIRST_SLOTS, 1 << (4 * (len(rows) + more) - 1).bit_length()))
        self._used = put_rows(keys, self._multipliers, self._keys, self._rows, rows)


def _words_of(keys: Records) -> Int64s:
    return np.ascontiguousarray(keys).view(np.int64).reshape(-1, WORDS)


def _bytes_of(keys: Records) -> list[bytes]:
    found: list[bytes] = np.ascontiguousarray(keys).view(f"V{KEY.itemsize}").tolist()
    return found


@jit_inline
def _slot_of(words: Int64s, place: int, multipliers: Int64s, keys: Int64s, rows: Int64s) -> int:
    """Return the slot of a key, or the free slot for it."""
    product = np.int64(0)
    for word in range(WORDS):
        product += words[place, word] * multipliers[word]
        product ^= product >> HASH_SHIFT
    last = len(rows) - 1
    slot = product & last
    while rows[slot] != FREE:
        difference = np.int64(0)
        for word in range(WORDS):
            difference |= keys[slot, word] ^ words[place, word]
        if difference == 0:
            break
        slot = (slot + 1) & last
    return int(slot)


@jit_flat
def find_rows(words: Int64s, multipliers: Int64s, keys: Int64s, rows: Int64s, found: Int64s) -> None:
    """Fill `found` with the row of each key, -1 if there is none."""
    for place in range(len(words)):
        found[place] = max(np.int64(-1), rows[_slot_of(words, place, multipliers, keys, rows)])


@jit_flat
def put_rows(words: Int64s, multipliers: Int64s, keys: Int64s, rows: Int64s, new: Int64s) -> int:
    """Set the row of each key. Return how many slots were free before."""
    used = 0
    for place in range(len(words)):
        slot = _slot_of(words, place, multipliers, keys, rows)
        used += rows[slot] == FREE
        rows[slot] = new[place]
        for word in range(WORDS):
            keys[slot, word] = words[place, word]
    return used
