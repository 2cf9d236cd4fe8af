"""Rows are found by the bytes of endpoints, in a table of numbers as in a dictionary."""

import numpy as np
import pytest

from kdissect.jit.rows import Records
from kdissect.streams.endpoints import KEY
from kdissect.streams.newest_rows import FIRST_SLOTS, NewestRows

BOTH = pytest.mark.parametrize("compiled", [False, True])


def some_keys(numbers: list[int]) -> Records:
    """A key for each number; they differ in one host or one port only."""
    ends = [(bytes(16), 9092, (number // 7).to_bytes(16), number % 7) for number in numbers]
    return np.array(ends, KEY)


@BOTH
def test_the_last_row_of_a_key_counts(compiled: bool) -> None:
    newest = NewestRows(compiled)
    assert newest.find(some_keys([1, 2])).tolist() == [-1, -1]
    newest.put(some_keys([1, 2, 1]), np.array([10, 20, 30]))
    assert newest.find(some_keys([2, 1, 3])).tolist() == [20, 30, -1]
    assert sorted(newest.rows().tolist()) == [20, 30]
    assert newest.find(some_keys([])).dtype == np.int64


@BOTH
def test_a_key_is_removed_if_it_still_has_that_row(compiled: bool) -> None:
    newest = NewestRows(compiled)
    newest.put(some_keys([1, 2, 3]), np.array([10, 20, 30]))
    newest.put(some_keys([2]), np.array([40]))
    newest.remove(some_keys([1, 2, 5]), np.array([10, 20, 50]))
    assert newest.find(some_keys([1, 2, 3, 5])).tolist() == [-1, 40, 30, -1]
    newest.put(some_keys([1]), np.array([60]))
    assert newest.find(some_keys([1])).tolist() == [60]


def test_both_ways_find_the_same() -> None:
    random = np.random.default_rng(5)
    table, plain = NewestRows(compiled=True), NewestRows(compiled=False)
    for turn in range(60):
        keys = some_keys(random.integers(0, 20 * FIRST_SLOTS, random.integers(0, 200)).tolist())
        rows = np.arange(len(keys)) + 1000 * turn
        for newest in (table, plain):
            if turn % 3 == 2:
                newest.remove(keys, newest.find(keys[::-1])[::-1])
            else:
                newest.put(keys, rows)
        assert table.find(keys).tolist() == plain.find(keys).tolist()
        assert sorted(table.rows().tolist()) == sorted(plain.rows().tolist())
    everything = some_keys(list(range(25 * FIRST_SLOTS)))
    assert table.find(everything).tolist() == plain.find(everything).tolist()


def test_keys_that_were_removed_make_room() -> None:
    newest = NewestRows(compiled=True)
    for turn in range(200):
        keys = some_keys(list(range(100 * turn, 100 * turn + 100)))
        newest.put(keys, np.arange(100))
        newest.remove(keys, np.arange(100))
    assert len(newest._rows) <= 16 * FIRST_SLOTS
