"""In a notebook: the tables and the data source give what the steps give without Spark."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import kdissect
from kdissect.spark.session import Engine
from kdissect.tables.schemas import TABLES
from tests.helpers.command import environment
from tests.spark.conftest import CAPTURES, Tables, in_order

pytestmark = pytest.mark.spark

SMALL = CAPTURES / "cluster-life.pcapng"
Whole = Callable[[Path], Tables]


def rows_of(frame: object, table: str) -> pa.Table:
    """Return a DataFrame as a table, in an order that depends on its rows alone."""
    rows = [row.asDict() for row in frame.collect()]  # type: ignore[attr-defined]
    return in_order(pa.Table.from_pylist(rows, TABLES[table]))


def test_importing_the_package_loads_nothing_that_takes_time() -> None:
    loaded = "import sys, kdissect; print({'pyspark', 'pyarrow', 'numpy', 'numba'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", loaded], capture_output=True, env=environment(), check=True, text=True
    )
    assert done.stdout == "set()\n"


def test_tables(engine: Engine, whole: Whole) -> None:
    found = kdissect.load_tables(engine.session(), SMALL)
    for name, table in whole(SMALL).items():
        assert rows_of(getattr(found, name), name).equals(in_order(table)), name
