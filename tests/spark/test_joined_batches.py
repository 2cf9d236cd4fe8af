"""Batches are joined if they are small, and side tables by themselves."""

import pyarrow as pa
import pytest

from kdissect.spark.joined_batches import BATCH_ROWS, LARGE_BATCH, SIDE_ROWS, coalesce_batches


def test_small_batches_are_joined_and_large_ones_pass() -> None:
    small = {"exchanges": pa.record_batch({"x": [1]})}
    large = {"exchanges": pa.record_batch({"x": list(range(LARGE_BATCH))})}
    passed, joined = coalesce_batches([small, small, large, small])
    assert passed is large
    assert joined["exchanges"].num_rows == 3


@pytest.mark.parametrize("table", BATCH_ROWS)
def test_joined_batches_are_bounded_by_each_table(table: str) -> None:
    rows = pa.record_batch({"x": pa.nulls(BATCH_ROWS[table] // 2)})
    one = {"exchanges": pa.record_batch({"x": [1]})} | {table: rows}
    if table == "exchanges":
        one = {table: rows.slice(0, LARGE_BATCH - 1)}
    most = -(-BATCH_ROWS[table] // one[table].num_rows)
    joined = list(coalesce_batches([one] * (2 * most + 1)))
    assert [tables[table].num_rows // one[table].num_rows for tables in joined] == [most, most, 1]


def test_side_tables_wait_until_they_are_many_or_the_end() -> None:
    def batch(number: int, events: int = 1) -> dict[str, pa.RecordBatch]:
        rows = {
            "exchanges": [number] * LARGE_BATCH,
            "partitions": [number],
            "ends": [number],
            "group_events": [number] * events,
            "replica_sets": [],
        }
        return {name: pa.record_batch({"x": pa.array(values, pa.int64())}) for name, values in rows.items()}

    first, second, others = coalesce_batches([batch(1), batch(2)])
    for number, tables in ((1, first), (2, second)):
        assert tables.keys() == {"exchanges", "partitions", "ends"}
        assert {value for rows in tables.values() for value in rows["x"].to_pylist()} == {number}
    assert {name: rows["x"].to_pylist() for name, rows in others.items()} == {
        "group_events": [1, 2],
        "ends": [1, 2],  # where events find the hosts of their connections
    }
    assert len(list(coalesce_batches([batch(1, SIDE_ROWS), batch(2)]))) == 4
