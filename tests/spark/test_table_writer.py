"""Tables are written completely or not at all, in every format, here and at URIs."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from pyarrow import parquet

from kdissect.capture.index.splits import Split
from kdissect.errors import OutputError
from kdissect.spark import table_jobs
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.session import Engine
from kdissect.spark.table_writer import (
    TableDirectory,
    TableFormat,
    join_parts,
    table_target,
)
from kdissect.tables.schemas import TABLES
from tests.helpers.tiers import spread
from tests.spark.conftest import CAPTURES, Tables, in_order

SplitsOf = Callable[..., tuple[Split, ...]]


Dissected = Callable[..., Tables]


FIRST = min(CAPTURES.glob("*.pcap*"))


def test_exported_tables_are_the_same_in_every_format(
    engine: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    expected = dissected(splits_of(FIRST))
    work = AnalysisWork(splits_of(FIRST, split_bytes=300_000), partitions=3)
    for format in spread(TableFormat, 2):
        folder = tmp_path / f"é %20 {format}"  # neither escaped nor unescaped
        target = TableDirectory(folder)
        target.write(table_jobs.tables(engine.session(), work, list(TABLES)), format)
        assert sorted(path.name for path in folder.iterdir()) == sorted(TABLES)
        for name, table in expected.items():
            found = READERS[format](folder / name, TABLES[name])
            assert in_order(found).equals(in_order(table)), (format, name)
    assert not list(tmp_path.glob(".*"))


def test_workers_write_what_spark_writes(
    engine: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    expected = dissected(splits_of(FIRST))
    work = AnalysisWork(splits_of(FIRST, split_bytes=300_000), partitions=3)
    target = TableDirectory(tmp_path / "tables")
    target.fill(partial(table_jobs.write_tables, engine.context(), work, list(TABLES)))
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == sorted(TABLES)
    for name, table in expected.items():
        found = READERS[TableFormat.PARQUET](tmp_path / "tables" / name, TABLES[name])
        assert in_order(found).equals(in_order(table)), name
        assert engine.session().read.parquet(str(tmp_path / "tables" / name)).count() == len(table)


def test_tables_at_a_uri(
    engine: Engine, splits_of: SplitsOf, dissected: Dissected, s3: str, tmp_path: Path
) -> None:
    from pyarrow import fs, parquet

    expected = dissected(splits_of(FIRST))
    system, _ = fs.FileSystem.from_uri("s3://captures" + s3)
    place = f"s3a://captures/tables{s3}"
    for wanted in (["exchanges", "connections"], ["exchanges"]):
        target = table_target(place, len(wanted) == 1, near=True)
        target.write(
            table_jobs.tables(engine.session(), AnalysisWork(splits_of(FIRST)), wanted), TableFormat.PARQUET
        )
        target.abandon()
        names = [one.base_name for one in system.get_file_info(fs.FileSelector("captures/tables"))]
        assert sorted(names) == sorted(wanted)
        assert system.get_file_info("captures/tables/exchanges/_SUCCESS").is_file
        found = parquet.read_table("captures/tables/exchanges", filesystem=system)
        assert in_order(found.cast(TABLES["exchanges"])).equals(in_order(expected["exchanges"]))
    with pytest.raises(OutputError, match="is not empty"):
        table_target(place, overwrite=False, near=True)
    near = table_target(f"file://{tmp_path}/tables", overwrite=False, near=True)
    assert isinstance(near, TableDirectory)
    near.abandon()


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="is not empty"):
        TableDirectory(tmp_path)
    with pytest.raises(OutputError, match="is not a directory"):
        TableDirectory(tmp_path / "notes.txt")


def test_an_export_that_comes_second_is_refused(tmp_path: Path) -> None:
    first, second = TableDirectory(tmp_path / "tables"), TableDirectory(tmp_path / "tables")
    first.fill(lambda folder: (folder / "exchanges").mkdir())
    with pytest.raises(OutputError, match="tables: directory not empty"):
        second.fill(lambda folder: (folder / "partitions").mkdir())
    second.abandon()
    assert [path.name for path in tmp_path.rglob("*")] == ["tables", "exchanges"]


def test_an_abandoned_export_leaves_nothing(tmp_path: Path) -> None:
    target = TableDirectory(tmp_path / "tables")
    target.abandon()
    assert not list(tmp_path.iterdir())


def read_parquet(folder: Path, schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([pa.parquet.read_table(path).cast(schema) for path in folder.iterdir()])


def read_csv(folder: Path, schema: pa.Schema) -> pa.Table:
    options = pa.csv.ConvertOptions(
        column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    return pa.concat_tables([pa.csv.read_csv(path, None, parse, options) for path in folder.iterdir()])


def read_jsonl(folder: Path, schema: pa.Schema) -> pa.Table:
    rows = [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]
    assert all(list(row) == schema.names for row in rows)
    return pa.Table.from_pylist(rows, schema)


READERS = {TableFormat.PARQUET: read_parquet, TableFormat.CSV: read_csv, TableFormat.JSONL: read_jsonl}


@pytest.mark.parametrize(
    ("format", "parts", "expected"),
    [
        ("csv", ["a,b\n1,2\n", "a,b\n", 'a,b\n3,"x\ny"\n'], 'a,b\n1,2\n3,"x\ny"\n'),
        ("jsonl", ['{"a":1}\n', "", '{"a":2}\n'], '{"a":1}\n{"a":2}\n'),
    ],
)
def test_text(format: str, parts: list[str], expected: str, tmp_path: Path) -> None:
    for number, text in enumerate(parts):
        (tmp_path / f"part-{number:05d}").write_text(text)
    join_parts(tmp_path, tmp_path / "all", format)
    assert (tmp_path / "all").read_text() == expected


def test_parquet(tmp_path: Path) -> None:
    for number in range(3):
        parquet.write_table(pa.table({"a": [number, number + 10]}), tmp_path / f"part-{number:05d}.parquet")
    join_parts(tmp_path, tmp_path / "all.parquet", "parquet")
    assert parquet.read_table(tmp_path / "all.parquet")["a"].to_pylist() == [0, 10, 1, 11, 2, 12]


def test_a_directory_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for target in (Path(), tmp_path, Path("/proc")):
        with pytest.raises(OutputError, match="cannot be replaced, as it is in use"):
            TableDirectory(target, overwrite=True)
