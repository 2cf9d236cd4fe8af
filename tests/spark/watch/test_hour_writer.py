"""Rows are written to the hour of their exchange."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kdissect.spark.watch.hour_writer import MOST_HOURS, NS_PER_HOUR, HourWriter, write_names
from kdissect.tables.schemas import TABLES
from tests.helpers import recorded
from tests.helpers.in_batches import rows_in_order


def moved(rows: pa.RecordBatch, column: str, values: list[int | None]) -> pa.RecordBatch:
    return rows.set_column(
        rows.schema.get_field_index(column), rows.schema.field(column), pa.array(values, pa.int64())
    )


def test_all_rows_are_written(tmp_path: Path) -> None:
    batches = recorded.dissected("transactions.pcapng")[1]
    writer = HourWriter(tmp_path, 3, 1)
    for batch in batches:
        writer.add(batch)
    paths = writer.close()
    assert {path.rpartition("/")[2] for path in paths} == {"batch-00000003-001.parquet"}
    read = [
        {path.partition("/")[0]: batch}
        for path in paths
        for batch in pq.ParquetFile(tmp_path / path).read().to_batches()
    ]
    expected = rows_in_order(batches)
    for name, table in rows_in_order(read).items():
        assert table.equals(expected[name]), name


def test_partitions_go_with_their_exchange(tmp_path: Path) -> None:
    batch = next(batch for batch in recorded.dissected("steady.pcapng")[1] if batch.get("partitions"))
    exchanges = batch["exchanges"]
    hours = [row % 3 for row in range(len(exchanges))]
    writer = HourWriter(tmp_path, 0, 0)
    times = [(hour * NS_PER_HOUR) + 1 for hour in hours]
    writer.add({**batch, "exchanges": moved(exchanges, "request_first_ns", times)})
    writer.close()
    hour_of = dict(
        zip(
            zip(*(exchanges[name].to_pylist() for name in ("connection", "ordinal")), strict=True),
            hours,
            strict=True,
        )
    )
    count = 0
    for path in tmp_path.glob("partitions/hour=*/*.parquet"):
        hour = int(path.parent.name.rpartition("-")[2])
        rows = pq.ParquetFile(path).read()
        keys = zip(*(rows[name].to_pylist() for name in ("connection", "ordinal")), strict=True)
        assert {hour_of[key] for key in keys} == {hour}
        count += rows.num_rows
    assert count == batch["partitions"].num_rows


def test_wrong_clocks_do_not_make_files_without_end(tmp_path: Path) -> None:
    exchanges = next(
        batch["exchanges"] for batch in recorded.dissected("steady.pcapng")[1] if "exchanges" in batch
    )
    count = 3 * MOST_HOURS
    rows = pa.concat_batches([exchanges.slice(0, 1)] * count)
    writer = HourWriter(tmp_path, 0, 0)
    writer.add(
        {"exchanges": moved(rows, "request_first_ns", [hour * NS_PER_HOUR + 1 for hour in range(count)])}
    )
    paths = writer.close()
    assert len(paths) == MOST_HOURS + 1
    assert (
        pq.ParquetFile(tmp_path / "exchanges/hour=other/batch-00000000-000.parquet").metadata.num_rows
        == count - MOST_HOURS
    )


def test_names_are_a_table(tmp_path: Path) -> None:
    assert write_names(tmp_path, 7, {}) == []
    (path,) = write_names(tmp_path, 7, {"id": "orders"})
    assert pq.ParquetFile(tmp_path / path).read().to_pylist() == [{"topic_id": "id", "topic": "orders"}]


def test_every_public_table_has_a_time() -> None:
    assert set(TABLES) == {"connections", "exchanges", "partitions", "group_events", "transaction_events"}
