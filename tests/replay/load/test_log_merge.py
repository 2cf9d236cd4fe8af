"""`replay.load.log_merge`: parts in windows of any size lead to one order."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kdissect.replay.load import log_merge
from kdissect.replay.load.log_files import FACTS, ROWS
from kdissect.replay.load.request_shapes import NO_SHAPE
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log


def test_windows_and_parts_of_any_size_lead_to_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(CAPTURES / "cluster-life.pcapng")
    make_log([path], tmp_path / "one", partitions=1)
    expected = pq.read_table(tmp_path / "one" / ROWS)
    monkeypatch.setattr(log_merge, "WINDOW_ROWS", 16)
    facts = make_log([path], tmp_path / "many", partitions=7)
    found = pq.read_table(tmp_path / "many" / ROWS)
    wanted = [name for name in expected.schema.names if not name.endswith(("_file", "_offset", "shape"))]
    assert found.select(wanted).equals(expected.select(wanted))
    pairs = {
        tuple(pair) for pair in zip(found["shape"].to_pylist(), expected["shape"].to_pylist(), strict=True)
    }
    shaped = [pair for pair in pairs if pair != (NO_SHAPE, NO_SHAPE)]
    assert len(shaped) == len({one for one, _ in shaped}) == len({other for _, other in shaped}) > 10
    assert facts.requests == len(found)
    assert {each.name for each in (tmp_path / "many").iterdir()} == {
        FACTS,
        ROWS,
        *(f"{number}.frames" for number in range(7)),
    }
