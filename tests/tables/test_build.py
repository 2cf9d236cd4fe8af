"""Pieces are handed on split by split; the tables do not depend on how they were cut."""

import pyarrow as pa
import pytest

from kdissect.tables.build import by_split
from tests.helpers import recorded


def pieces(*rows: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch({"split": [row[0] for row in rows], "piece": [row[1] for row in rows]})


ROWS = [(0, 0), (0, 1), (0, -1), (1, 0), (1, -1), (2, -1), (3, 0), (3, 1), (3, 2)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_each_batch_has_the_pieces_of_one_split(size: int) -> None:
    batches = [pieces(*ROWS[start : start + size]) for start in range(0, len(ROWS), size)]
    assert [batch.to_pylist() for batch in by_split(batches)] == [
        [{"split": 0, "piece": 0}, {"split": 0, "piece": 1}],
        [{"split": 1, "piece": 0}],
        [{"split": 3, "piece": 0}, {"split": 3, "piece": 1}, {"split": 3, "piece": 2}],
    ]


def test_without_pieces_there_is_nothing() -> None:
    assert not list(by_split([pieces((0, -1))]))
    assert not list(by_split([]))


def test_rows_of_an_exchange_come_with_it() -> None:
    for tables in recorded.dissected("refusals.pcapng")[1]:
        if "exchanges" in tables:
            keys = {(row["connection"], row["ordinal"]) for row in tables["exchanges"].to_pylist()}
            assert {(row["connection"], row["ordinal"]) for row in tables["partitions"].to_pylist()} <= keys
    assert recorded.rows("refusals.pcapng", "partitions")
