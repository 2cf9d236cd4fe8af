"""Hashes of topic-partitions: equal for equal partitions, wherever their names stand."""

import numpy as np

from kdissect.jit.decorators import jit
from kdissect.tables.partition_keys import hash_key, hash_number

ARENA = np.frombuffer(b"orders..orders..bills", np.uint8)
KEYS = np.array([[0, 6, -1, 1], [8, 6, -1, 1], [0, 6, -1, 2], [16, 5, -1, 1], [-1, 0, 3, 1], [-1, 0, -1, 1]])


@jit
def hashes(arena, keys, out):
    """Fill `out` with the hash of each row, since inner kernels have no entry from Python."""
    for row in range(len(keys)):
        out[row] = hash_key(arena, keys, row)


@jit
def numbers(out):
    for row in range(len(out)):
        out[row] = hash_number(row)


def test_only_the_same_name_and_partition_have_the_same_hash() -> None:
    found = np.zeros(len(KEYS), np.int64)
    hashes(ARENA, KEYS, found)
    assert found[0] == found[1]
    assert len(set(found.tolist())) == len(KEYS) - 1
    assert found[-1] == 0
    assert ((found >= 0) & (found < 1 << 62)).all()


def test_neighbouring_numbers_differ_in_their_low_bits() -> None:
    found = np.zeros(1000, np.int64)
    numbers(found)
    assert len(set(found.tolist())) == 1000
    assert len(set((found & 1023).tolist())) > 500
