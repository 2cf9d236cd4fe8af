"""A table of a capture by `spark.read.format("kdissect")`."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import kdissect
from kdissect.capture.formats.file_types import InputError
from kdissect.spark.session import Engine
from kdissect.tables.schemas import TABLES
from tests.spark.conftest import CAPTURES, Tables, in_order

SMALL = CAPTURES / "cluster-life.pcapng"


Whole = Callable[[Path], Tables]


def rows_of(frame: object, table: str) -> pa.Table:
    """Return a DataFrame as a table, in an order that depends on its rows alone."""
    rows = [row.asDict() for row in frame.collect()]  # type: ignore[attr-defined]
    return in_order(pa.Table.from_pylist(rows, TABLES[table]))


def test_the_data_source(engine: Engine, whole: Whole) -> None:
    spark = engine.session()
    kdissect.register(spark)
    for name, table in whole(SMALL).items():
        frame = spark.read.format("kdissect").option("table", name).load(str(SMALL))
        assert frame.columns == TABLES[name].names
        assert rows_of(frame, name).equals(in_order(table)), name
    produced = spark.read.format("kdissect").load(str(SMALL)).where("api_key = 0").count()
    assert produced == sum(row == 0 for row in whole(SMALL)["exchanges"]["api_key"].to_pylist()) > 0


def test_wrong_paths_and_tables(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        kdissect.load_tables(engine.session(), tmp_path / "nothing.pcap")
    kdissect.register(engine.session())
    reader = engine.session().read.format("kdissect")
    with pytest.raises(Exception, match="'records' is not a table of kdissect"):
        reader.option("table", "records").load(str(SMALL))
    with pytest.raises(AttributeError, match="no attribute 'table'"):
        kdissect.table  # noqa: B018


def test_processes_of_a_stream_do_not_load_what_dissects() -> None:
    code = "import sys, kdissect.spark.datasource; print('kdissect.spark.tasks' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_sql_takes_the_python_workers_of_jobs(engine: Engine) -> None:
    of_jobs = engine.context().parallelize([0], 1).map(lambda _: os.getppid()).collect()

    def parent(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"daemon": [os.getppid()]})

    of_sql = engine.session().range(1, numPartitions=1).mapInArrow(parent, "daemon long").collect()
    assert [row.daemon for row in of_sql] == of_jobs
