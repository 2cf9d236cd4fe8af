"""On a cluster whose machines know nothing of kdissect: the same rows, also when one of them goes."""

import gzip
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import index_captures
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import open_inputs
from kdissect.cli.arguments import parse
from kdissect.cli.context import prepare_run
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import from_arrow
from kdissect.spark import jobs, table_jobs
from kdissect.spark import tasks as steps
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.figures_step import summary_step
from kdissect.spark.session import Engine
from kdissect.spark.table_writer import (
    TableDirectory,
    TableFormat,
    TableStore,
)
from kdissect.tables.schemas import TABLES
from tests.helpers.command import interrupted
from tests.helpers.rings import assert_same, ring_files, tables_at_once, tables_of_watch, write_ring
from tests.helpers.spark_cluster import Standalone, half_way
from tests.helpers.tiers import spread
from tests.helpers.watching import watch_until_idle
from tests.spark.conftest import CAPTURES, Tables, in_order

pytestmark = pytest.mark.spark

CAPTURE, SMALL = CAPTURES / "broker-restart.pcapng", CAPTURES / "clock-step.pcapng"
SplitsOf = Callable[..., tuple[Split, ...]]
Dissected = Callable[..., Tables]


def read(folder: Path, names: list[str]) -> Tables:
    return {
        name: in_order(
            pa.concat_tables(
                [pa.parquet.read_table(path).cast(TABLES[name]) for path in (folder / name).glob("*.parquet")]
            )
        )
        for name in names
    }


def test_the_executors_python_has_no_kdissect(cluster: Standalone) -> None:
    command = [cluster.python, "-c", "import numba, pyarrow, kdissect"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment, check=False)
    assert "No module named 'kdissect'" in done.stderr


@pytest.mark.thorough
def test_the_same_tables(
    cluster: Standalone, far: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    """Check tables, a job of uncompiled work each; `test_same_tables` has more ways to split."""
    expected = dissected(splits_of(SMALL))
    work = AnalysisWork(splits_of(SMALL, split_bytes=SMALL.stat().st_size // 7 + 1), partitions=7)
    target = TableDirectory(tmp_path / "tables")
    names = spread(TABLES, 2)
    target.write(table_jobs.tables(far.session(), work, names), TableFormat.PARQUET)
    found = read(tmp_path / "tables", names)
    for name in names:
        assert found[name].equals(in_order(expected[name])), name
    unpacked = [path.name.partition("-")[0] for path in (cluster.cache / "kdissect").iterdir()]
    assert unpacked == ["package"]


def test_executors_survey_and_write(
    cluster: Standalone, far: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    """Check the work that a cluster does by itself.

    Ranges are looked over, and tables written through Hadoop's file systems.
    """
    files = open_inputs([str(SMALL)], str(tmp_path)).files
    size = SMALL.stat().st_size
    run = partial(jobs.scan_ranges, far.context())
    found = index_captures(files, 40_000, range_bytes=size // 4, run=run)
    assert found == index_captures(files, 40_000, range_bytes=size // 4)
    target = TableStore(f"file://{tmp_path}/tables", overwrite=False, near=False)
    target.write(
        table_jobs.tables(far.session(), AnalysisWork(found.splits), ["connections"]), TableFormat.PARQUET
    )
    target.abandon()
    folder = tmp_path / "tables" / "connections"
    assert (folder / "_SUCCESS").exists()
    table = pa.parquet.read_table(folder).cast(TABLES["connections"])
    assert in_order(table).equals(in_order(dissected(splits_of(SMALL))["connections"]))


@pytest.mark.thorough
def test_compressed_captures_are_unpacked_for_all(
    far: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    packed, shared = tmp_path / "packed.gz", tmp_path / "shared"
    packed.write_bytes(gzip.compress(CAPTURE.read_bytes()))
    shared.mkdir()
    command = ["export", str(packed), "--out", "never", "--table", "exchanges", "--quiet"]
    with pytest.raises(InputError, match="a cluster cannot read compressed captures"):
        prepare_run(far, parse(command), [str(packed)])
    chosen = parse([*command, "--spool", str(shared), "--split-bytes", "400k"])
    found = table_jobs.tables(far.session(), prepare_run(far, chosen, [str(packed)]).work, ["exchanges"])
    (folder,) = shared.iterdir()
    rows = pa.Table.from_pylist([row.asDict() for row in found["exchanges"].collect()], TABLES["exchanges"])
    expected = dissected(splits_of(CAPTURE))["exchanges"]
    assert in_order(rows, ("capture_file",)).equals(in_order(expected, ("capture_file",)))
    far.afterwards.close()
    assert not folder.exists()


@pytest.mark.thorough
def test_an_executor_that_dies_while_tables_are_written_changes_nothing(
    cluster: Standalone, far: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    work = AnalysisWork(splits_of(CAPTURE, split_bytes=CAPTURE.stat().st_size // 8), partitions=16)
    found = table_jobs.tables(far.session(), work, ["exchanges"])
    target = TableStore(f"file://{tmp_path}/tables", overwrite=False, near=False)
    with half_way(far, 16, cluster.kill_executor):
        target.write(found, TableFormat.PARQUET)
    target.abandon()
    table = pa.parquet.read_table(tmp_path / "tables" / "exchanges").cast(TABLES["exchanges"])
    assert in_order(table).equals(in_order(dissected(splits_of(CAPTURE))["exchanges"]))


@pytest.mark.thorough
def test_a_worker_that_dies_changes_no_row_of_a_watch(
    cluster: Standalone, far: Engine, tmp_path: Path
) -> None:
    """All machines share directories here."""
    write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 9)[:2])
    with half_way(far, 16, cluster.kill_worker):
        reports = watch_until_idle(
            far, tmp_path / "ring", tmp_path / "out", tmp_path, most_files=1, partitions=16
        )
    assert [report.files for report in reports] == [1, 1, 0]
    assert_same(tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "ring"))
    assert not list((tmp_path / "out").rglob("*.part*"))


def test_a_worker_that_dies_half_way_changes_nothing(
    cluster: Standalone, far: Engine, splits_of: SplitsOf
) -> None:
    whole = splits_of(CAPTURE)
    pieces = list(steps.scan_step([pa.record_batch({"split": [0]})], whole, ()))
    expected = list(summary_step(pieces, whole))
    work = AnalysisWork(splits_of(CAPTURE, split_bytes=CAPTURE.stat().st_size // 64), partitions=16)
    with half_way(far, 16, cluster.kill_worker):
        found = jobs.merge_figures(jobs.figures(far.context(), work))
    assert found.counts == steps.sum_counts(expected)
    facts = CaptureFacts()
    assert build_report(found.partial, facts) == build_report(
        from_arrow(steps.partials_only(expected)), facts
    )


@pytest.fixture
def free_cluster(tmp_path: Path) -> Iterator[Standalone]:
    """A cluster of its own: `far` holds all cores of the other one."""
    with Standalone(tmp_path, workers=1) as started:
        yield started


@pytest.mark.thorough
def test_the_first_interrupt_reports_what_was_read(free_cluster: Standalone, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "".join(f"{name} {value}\n" for name, value in free_cluster.confs.items())
    )
    code, output, errors = interrupted(
        "analyze", CAPTURE, "--full", "--master", free_cluster.master, "--split-bytes", "50000",
        SPARK_CONF_DIR=str(tmp_path), PYSPARK_PYTHON=str(free_cluster.python),
    )  # fmt: skip
    assert code == 130, errors
    assert b"interrupted: what came until now is reported" in errors
    told = re.search(rb"interrupted: only ([\d.]+) KiB of 1.60 MiB were read", errors)
    assert told, errors
    assert float(told[1]) < 100
    assert told[0] in output
    assert b"Traceback" not in errors
