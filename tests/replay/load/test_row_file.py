"""`replay.load.row_file`: rows are those that were added, wherever they lie, also in another process."""

from __future__ import annotations

import os
import pickle
from random import Random

import numpy as np
import pytest

from kdissect.replay.load import row_file
from kdissect.replay.load.row_file import RowFile


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_file, "TAIL_BYTES", 100)
    monkeypatch.setattr(row_file, "BLOCK_BYTES", 40)
    monkeypatch.setattr(row_file, "KEPT_BLOCKS", 3)


def row(number: int) -> bytes:
    return number.to_bytes(12, "big")


def rows_of(rows: RowFile, first: int = 0) -> list[bytes]:
    data = b"".join(rows.blocks(first))
    return [data[begin : begin + 12] for begin in range(0, len(data), 12)]


@pytest.mark.parametrize("seed", range(10))
def test_rows_are_read_in_any_order_while_others_are_added(seed: int) -> None:
    chance, rows, added = Random(seed), RowFile(12), list[bytes]()
    for _ in range(300):
        step = chance.randrange(4)
        if step == 0:
            rows.flush()
        elif step == 1 and added:
            number = chance.randrange(len(added))
            data, position = rows.place(number)
            assert data[position : position + 12] == added[number]
        else:
            new = [row(len(added) + place) for place in range(chance.randrange(1, 5))]
            rows.append(b"".join(new))
            added += new
        assert len(rows) == len(added)
    first = chance.randrange(len(added))
    assert (rows_of(rows), rows_of(rows, first)) == (added, added[first:])
    copy = pickle.loads(pickle.dumps(rows))
    copy.append(row(9999))
    assert rows_of(copy) == [*added, row(9999)]
    assert len(rows._blocks) <= row_file.KEPT_BLOCKS


def test_another_process_fills_a_shared_file() -> None:
    rows = RowFile(12, shared=True)
    here, there = os.pipe()
    child = os.fork()
    if not child:
        for number in range(50):
            rows.append(row(number))
        os.write(there, pickle.dumps(rows))
        os._exit(0)
    os.waitpid(child, 0)
    told = pickle.loads(os.read(here, 1 << 16))
    os.close(here)
    os.close(there)
    assert len(told) == 50
    rows.take_over(told)
    assert rows_of(rows) == [row(number) for number in range(50)]
    rows.append(row(50))
    assert rows_of(rows, 49) == [row(49), row(50)]


def test_a_column_has_the_rows_on_disk_and_those_in_memory() -> None:
    rows, numbers = RowFile(16), np.arange(100_000).reshape(-1, 2)
    rows.append(numbers[:40_000].tobytes())
    rows.flush()
    rows.append(numbers[40_000:].tobytes())
    found = rows.column(np.int64, lambda block: np.frombuffer(block, np.int64)[1::2])
    assert found.tolist() == numbers[:, 1].tolist()
    assert RowFile(16).column(np.int64, lambda block: np.frombuffer(block, np.int64)).tolist() == []
