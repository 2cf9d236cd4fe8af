"""On a cluster whose machines know nothing of kdissect: the same rows, also when one of them goes."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from kdissect.capture.files import open_inputs
from kdissect.capture.splits import Split
from kdissect.capture.survey import survey
from kdissect.pipeline import jobs, steps
from kdissect.pipeline.jobs import Work
from kdissect.pipeline.session import Engine, Settings
from kdissect.pipeline.tabledir import Format, TableDirectory, TableStore
from kdissect.report.compose import compose
from kdissect.report.partials import from_arrow
from kdissect.report.summary import CaptureFacts
from kdissect.tables import TABLES

from .conftest import CAPTURES, Tables, in_order
from .standalone import Standalone

pytestmark = pytest.mark.spark

CAPTURE = CAPTURES / "broker-restart.pcapng"
SplitsOf = Callable[..., tuple[Split, ...]]
Dissected = Callable[..., Tables]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def far(cluster: Standalone) -> Iterator[Engine]:
    """Spark on the cluster, beside whatever Spark other tests have in this process."""
    from pyspark import SparkContext

    before = SparkContext._active_spark_context, SparkContext._gateway, SparkContext._jvm
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    known = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = str(cluster.python)
    try:
        with Engine.start(Settings(cluster.master, cluster.confs)) as engine:
            engine.context()
            yield engine
    finally:
        SparkContext._active_spark_context, SparkContext._gateway, SparkContext._jvm = before
        os.environ.pop("PYSPARK_PYTHON")
        if known is not None:
            os.environ["PYSPARK_PYTHON"] = known


def read(folder: Path) -> Tables:
    return {
        name: in_order(
            pa.concat_tables(
                [pa.parquet.read_table(path).cast(schema) for path in (folder / name).glob("*.parquet")]
            )
        )
        for name, schema in TABLES.items()
    }


def test_the_executors_python_has_no_kdissect(cluster: Standalone) -> None:
    command = [cluster.python, "-c", "import numba, pyarrow, kdissect"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment, check=False)
    assert "No module named 'kdissect'" in done.stderr


def test_same_tables_for_any_number_of_splits(
    cluster: Standalone, far: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    expected = dissected(splits_of(CAPTURE))
    size = CAPTURE.stat().st_size
    for count in (1, 2, 7, 64):
        work = Work(splits_of(CAPTURE, split_bytes=size // count + 1), partitions=count)
        target = TableDirectory(tmp_path / str(count))
        target.write(jobs.tables(far.session(), work, list(TABLES)), Format.PARQUET)
        found = read(tmp_path / str(count))
        for name, table in expected.items():
            assert found[name].equals(in_order(table)), (count, name)
    unpacked = [path.name.partition("-")[0] for path in (cluster.cache / "kdissect").iterdir()]
    assert unpacked == ["package"]


def test_executors_survey_and_write(
    cluster: Standalone, far: Engine, splits_of: SplitsOf, dissected: Dissected, tmp_path: Path
) -> None:
    """What a cluster does by itself: ranges are looked over, and tables written through Hadoop's file systems."""
    files = open_inputs([str(CAPTURE)], str(tmp_path)).files
    size = CAPTURE.stat().st_size
    run = partial(jobs.looked_over, far.context())
    found = survey(files, 40_000, range_bytes=size // 10, run=run)
    assert found == survey(files, 40_000, range_bytes=size // 10)
    target = TableStore(f"file://{tmp_path}/tables", overwrite=False, near=False)
    target.write(jobs.tables(far.session(), Work(found.splits), ["connections"]), Format.PARQUET)
    target.abandon()
    folder = tmp_path / "tables" / "connections"
    assert (folder / "_SUCCESS").exists()
    table = pa.parquet.read_table(folder).cast(TABLES["connections"])
    assert in_order(table).equals(in_order(dissected(splits_of(CAPTURE))["connections"]))


def test_a_worker_that_dies_half_way_changes_nothing(
    cluster: Standalone, far: Engine, splits_of: SplitsOf
) -> None:
    whole = splits_of(CAPTURE)
    pieces = list(steps.scan_step([pa.record_batch({"split": [0]})], whole, ()))
    expected = list(steps.summary_step(pieces, whole))
    work = Work(splits_of(CAPTURE, split_bytes=CAPTURE.stat().st_size // 64), partitions=16)
    context = far.context()
    tracker = context.statusTracker()
    killed = threading.Event()

    def kill_half_way() -> None:
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()):
                if stage and stage.numTasks == 16 and stage.numCompletedTasks >= 3:
                    cluster.kill_worker()
                    killed.set()
                    return
            time.sleep(0.005)

    killer = threading.Thread(target=kill_half_way)
    killer.start()
    found = jobs.analyze(context, work)
    killer.join()
    assert killed.is_set()
    assert found.counts == steps.counts_in(expected)
    facts = CaptureFacts()
    assert compose(found.partial, facts) == compose(from_arrow(steps.partials_in(expected)), facts)
