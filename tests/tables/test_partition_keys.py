"""Hashes of topic-partitions: equal for equal partitions, wherever their names stand."""

import numpy as np
import pytest

from kdissect.jit.decorators import jit
from kdissect.tables import partition_keys as module
from kdissect.tables import partitions
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_keys import call_all, hash_key, hash_number, plain_keys
from kdissect.tables.partition_numbers import PartitionSide
from tests.helpers import recorded

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


@pytest.mark.parametrize("name", ["cluster-life.pcapng", "old-broker.pcap"])
def test_many_rows_have_the_keys_of_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    class Side(PartitionSide):
        """Rows of partitions, whose keys are made both ways."""

        def __init__(self, columns: MessageColumns) -> None:
            super().__init__(columns)
            plain = plain_keys(columns)
            assert self.keys.tolist() == plain.keys.tolist()
            assert self.exchange.tolist() == plain.exchange.tolist()
            compared.append(len(plain.keys))

    monkeypatch.setattr(module, "are_many", lambda _rows: True)
    monkeypatch.setattr(partitions, "PartitionSide", Side)
    recorded.dissected.__wrapped__(name)
    assert sum(compared) > 100


def test_the_loop_for_many_rows_compiles() -> None:
    call_all()
