"""`replay.load.logged_shapes`: facts of requests are those that were written, block by block."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdissect.replay.load import logged_shapes
from kdissect.replay.load.logged_shapes import LoggedShapes


@pytest.mark.parametrize("seed", range(5))
def test_facts_are_read_block_by_block(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    written = [[chance.randrange(99) for _ in range(2 * chance.randrange(4))] for _ in range(50)]
    pq.write_table(pa.table({"facts": pa.array(written, pa.list_(pa.int64()))}), tmp_path / "rows")
    monkeypatch.setattr(logged_shapes, "ROWS_AT_ONCE", 7)
    logged = LoggedShapes(np.zeros(50, np.int32), pq.ParquetFile(tmp_path / "rows"))
    found: list[list[int]] = []
    for facts in logged.facts():
        requests = np.arange(facts.first, facts.first + len(facts.edges) - 1)
        assert len(requests) <= 7
        assert facts.counts(requests).tolist() == [len(each) for each in written[facts.first :][:7]]
        some = np.sort(np.array(chance.sample(requests.tolist(), len(requests) // 2), np.int64))
        rows, owners = facts.rows(some, 2)
        assert rows.ravel().tolist() == [value for each in some.tolist() for value in written[each]]
        assert owners.tolist() == [each for each in some.tolist() for _ in range(len(written[each]) // 2)]
        found += [facts.values[begin:end].tolist() for begin, end in pairwise(facts.edges)]
    assert found == written
