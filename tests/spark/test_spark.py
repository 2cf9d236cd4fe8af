"""The same steps on Spark: jobs, writers, and what is left when it ends."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from kdissect.capture.index.splits import Split
from kdissect.errors import OutputError
from kdissect.report.build.report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import from_arrow
from kdissect.spark import jobs, tasks
from kdissect.spark.jobs import AnalysisWork
from kdissect.spark.session import Engine
from kdissect.spark.startup.local_scan import scan_locally
from kdissect.spark.table_writer import (
    TableDirectory,
    TableFormat,
    table_target,
)
from kdissect.tables.schemas import TABLES
from tests.spark.conftest import CAPTURES, Tables, in_order

pytestmark = pytest.mark.spark

SplitsOf = Callable[..., tuple[Split, ...]]
Dissected = Callable[..., Tables]
FIRST = min(CAPTURES.glob("*.pcap*"))


@pytest.mark.parametrize("ahead", [None, 0, 2, 1000])
def test_analysis_is_what_the_steps_give_without_spark(
    engine: Engine, splits_of: SplitsOf, tmp_path: Path, ahead: int | None
) -> None:
    whole, cut = splits_of(FIRST), splits_of(FIRST, split_bytes=100_000)
    pieces = [batch for split in whole for batch in tasks.scan_step([ordinal(split)], whole, ())]
    rows = list(tasks.summary_step(pieces, whole))
    work = AnalysisWork(cut, partitions=5)
    if ahead is not None:
        done = scan_locally(cut[:ahead], (), work.shares(2), tmp_path / "pieces", lambda: False)
        assert done.done == min(ahead, len(cut))
        work = replace(work, ahead=done)
    analysis = jobs.merge_figures(jobs.figures(engine.context(), work))
    assert analysis.counts == tasks.sum_counts(rows)
    assert analysis.counts.packets == sum(split.packets for split in whole)
    facts = CaptureFacts()
    assert build_report(analysis.partial, facts) == build_report(from_arrow(tasks.partials_only(rows)), facts)


def test_exported_tables_are_the_same_in_every_format(
    engine: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    expected = dissected(splits_of(FIRST))
    work = AnalysisWork(splits_of(FIRST, split_bytes=300_000), partitions=3)
    for format in TableFormat:
        target = TableDirectory(tmp_path / format)
        target.write(jobs.tables(engine.session(), work, list(TABLES)), format)
        assert sorted(path.name for path in (tmp_path / format).iterdir()) == sorted(TABLES)
        for name, table in expected.items():
            found = READERS[format](tmp_path / format / name, TABLES[name])
            assert in_order(found).equals(in_order(table)), (format, name)
    assert not list(tmp_path.glob(".*"))


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
            jobs.tables(engine.session(), AnalysisWork(splits_of(FIRST)), wanted), TableFormat.PARQUET
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


def test_a_failing_step_is_one_sentence(engine: Engine, splits_of: SplitsOf, tmp_path: Path) -> None:
    from kdissect.spark.failures import explain

    gone = tmp_path / "gone.pcapng"
    gone.write_bytes(FIRST.read_bytes())
    work = AnalysisWork(splits_of(gone))
    gone.unlink()
    with pytest.raises(Exception) as raised:  # noqa: PT011 - PySpark's, whatever it is
        jobs.figures(engine.context(), work)
    sentence = explain(raised.value)
    assert "gone.pcapng" in sentence
    assert "\n" not in sentence


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="is not empty"):
        TableDirectory(tmp_path)
    with pytest.raises(OutputError, match="is not a directory"):
        TableDirectory(tmp_path / "notes.txt")


def test_an_abandoned_export_leaves_nothing(tmp_path: Path) -> None:
    target = TableDirectory(tmp_path / "tables")
    target.abandon()
    assert not list(tmp_path.iterdir())


def ordinal(split: Split) -> pa.RecordBatch:
    return pa.record_batch({"split": [split.index]})


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
