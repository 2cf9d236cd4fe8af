"""Hashes of topic-partitions: equal for equal partitions, wherever their names stand."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from kdissect.array_types import Bytes
from kdissect.jit.decorators import jit
from kdissect.jit.many_rows import read_only
from kdissect.protocol.columnar.batch_reader import Table
from kdissect.protocol.columnar.registers import ROW, ROW_WIDTH
from kdissect.protocol.columnar.vm_state import OWNER, OWNER_PRESENT, OWNER_WIDTH
from kdissect.tables import partition_keys as module
from kdissect.tables import partitions
from kdissect.tables.arrow_columns import UUID_BYTES
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_keys import (
    TOPIC,
    TOPIC_ID,
    TOPIC_LENGTH,
    call_all,
    fill_keys,
    hash_key,
    hash_number,
    plain_keys,
)
from kdissect.tables.partition_numbers import PartitionSide
from tests.helpers import recorded

ARENA = np.frombuffer(b"orders..orders..bills", np.uint8)
KEYS = np.array(
    [
        [0, 6, -1, 1],
        [8, 6, -1, 1],
        [0, 6, -1, 2],
        [16, 5, -1, 1],
        [-1, -1, 3, 1],
        [-1, -1, -1, 1],
        [-1, -1, -1, 2],
    ]
)


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

        def __init__(self, arena: Bytes, columns: MessageColumns) -> None:
            super().__init__(arena, columns)
            plain = plain_keys(arena, columns)
            assert self.keys.tolist() == plain.keys.tolist()
            assert self.exchange.tolist() == plain.exchange.tolist()
            compared.append(len(plain.keys))

    monkeypatch.setattr(module, "are_many", lambda _rows: True)
    monkeypatch.setattr(partitions, "PartitionSide", Side)
    recorded.dissected.__wrapped__(name)
    assert sum(compared) > 100


@pytest.mark.parametrize("seed", range(3))
def test_an_id_of_zeros_is_absent_and_so_is_the_length_of_no_name(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arena = np.zeros(200, np.uint8)
    arena[::50] = 7
    rows = rng.integers(0, len(arena) - UUID_BYTES, (100, OWNER_WIDTH + ROW_WIDTH))
    rows[:, OWNER], rows[:, OWNER_PRESENT] = np.arange(100), rng.integers(0, 1 << ROW_WIDTH, 100)
    table = Table(ROW, rows[:, OWNER], rows[:, OWNER_PRESENT], rows[:, OWNER_WIDTH:])
    read = SimpleNamespace(rows=rows, partitions=table)
    columns = cast("MessageColumns", SimpleNamespace(columns=read, rows=np.arange(100)))
    plain, filled = plain_keys(arena, columns), np.empty((100, 4), np.int64)
    fill_keys(read_only(arena), rows, read_only(columns.rows), filled, np.empty(100, np.int64))
    assert filled.tolist() == plain.keys.tolist()
    starts = table.spans("topic_id").start.tolist()
    expected = [at if at >= 0 and arena[at : at + UUID_BYTES].any() else -1 for at in starts]
    assert filled[:, TOPIC_ID].tolist() == expected
    assert min(starts.count(-1), expected.count(-1) - starts.count(-1)) > 0
    assert (filled[filled[:, TOPIC] < 0, TOPIC_LENGTH] == -1).all()


def test_the_loop_for_many_rows_compiles() -> None:
    call_all()
