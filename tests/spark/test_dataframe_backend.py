"""Contents of DataFrames: keys and blobs, one row for each, and partitions by number."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from kdissect.spark.backend import Row
from kdissect.spark.dataframe_backend import (
    ADDRESSED,
    NAMED,
    _call_each,
    _in_batches,
    _over_numbers,
    _over_rows,
    _with_partition,
)


def scan(ordinals: Iterable[int]) -> Iterator[tuple[int, Row]]:
    for ordinal in ordinals:
        yield ordinal % 2, (ordinal, b"blob")


def name_rows(rows: Iterable[Row]) -> Iterator[tuple[str, bytes]]:
    for ordinal, blob in rows:
        yield f"split {ordinal}", blob * 2


def test_scanned_rows_carry_their_partition() -> None:
    numbers = pa.record_batch({"id": [4, 5]})
    batches = list(_over_numbers([numbers], lambda some: _with_partition(some, scan), ADDRESSED))
    assert [batch.to_pylist() for batch in batches] == [
        [{"partition": 0, "key": 4, "rows": b"blob"}],
        [{"partition": 1, "key": 5, "rows": b"blob"}],
    ]


def test_a_step_sees_rows_one_at_a_time() -> None:
    rows = pa.record_batch({"key": [4, 5], "rows": [b"a", b"b"]})
    batches = list(_over_rows([rows], name_rows))
    assert [batch.to_pylist()[0] for batch in batches] == [
        {"key": "split 4", "rows": b"aa"},
        {"key": "split 5", "rows": b"bb"},
    ]
    assert all(batch.schema == NAMED for batch in batches)


def test_results_are_numbered_like_their_items() -> None:
    results = list(_call_each([1, 0], str.upper, ("a", "b")))
    assert [number for number, _ in results] == [1, 0]
    assert [len(batch) for batch in _in_batches([("x", b"1")], NAMED)] == [1]
