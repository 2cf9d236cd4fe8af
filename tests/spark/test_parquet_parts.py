"""Parts of tables: what is written, what is passed on, and that an error leaves no writer open."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from kdissect.spark import parquet_parts
from kdissect.spark.parquet_parts import complete_parts, part_path, write_parts

SCHEMAS = {
    "one": pa.schema([("number", pa.int64()), ("text", pa.string())]),
    "empty": pa.schema([("x", pa.bool_())]),
}


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = list(range(first, first + count))
    return pa.record_batch([pa.array(numbers), pa.array(map(str, numbers))], schema=SCHEMAS["one"])


def tables() -> Iterator[tuple[str, pa.RecordBatch]]:
    yield "one", rows(0, 5)
    yield "other", rows(0, 2)
    yield "one", rows(0, 0)
    yield "one", rows(5, 7)


def test_each_partition_is_a_file_and_each_table_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_parts, "GROUP_ROWS", 6)
    for number in (0, 3):
        assert list(write_parts(number, tables(), str(tmp_path), SCHEMAS)) == [("other", rows(0, 2))]
    complete_parts(tmp_path, SCHEMAS)
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "part-00000.zstd.parquet",
        "part-00003.zstd.parquet",
    ]
    assert parquet.read_table(tmp_path / "one")["number"].to_pylist() == [*range(12), *range(12)]
    assert parquet.read_table(tmp_path / "empty").schema == SCHEMAS["empty"]


def test_an_error_ends_the_files(tmp_path: Path) -> None:
    def failing() -> Iterator[tuple[str, pa.RecordBatch]]:
        yield "one", rows(0, parquet_parts.GROUP_ROWS)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        list(write_parts(1, failing(), str(tmp_path), SCHEMAS))
    assert parquet.read_metadata(part_path(tmp_path / "one", 1)).num_rows == parquet_parts.GROUP_ROWS
