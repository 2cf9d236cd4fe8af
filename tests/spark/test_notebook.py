"""In a notebook: the tables and the data source give what the steps give without Spark."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import kdissect
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
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


def test_filters_and_comments(engine: Engine) -> None:
    found = kdissect.load_tables(engine.session(), SMALL, api="Fetch", since="+1s")
    every = kdissect.load_tables(engine.session(), SMALL).exchanges
    begin = index_captures(open_inputs([str(SMALL)], "").files).earliest_time_ns
    last_ns = "greatest(request_last_ns, response_last_ns)"  # null is passed over
    expected = every.filter(f"api_key = 1 AND {last_ns} >= {begin} + 1000000000").count()
    names = {row.api_name for row in found.exchanges.select("api_name").distinct().collect()}
    assert names == {"Fetch"}
    assert found.exchanges.count() == expected > 0
    comments = {field.name: field.metadata.get("comment") for field in found.exchanges.schema.fields}
    assert comments["latency_ns"].startswith("from the last byte of the request")
    assert all(comments.values())


WITHOUT_JAVA = """
import os
import kdissect.spark.startup.java as java
java.find_java.__defaults__ = (os.environ, ())  # no place where systems install it
"""

ELSEWHERE = """
import sys, kdissect
try:
    tables = kdissect.load_tables(None, sys.argv[1], **eval(sys.argv[2]))
    print(tables.exchanges.count())
except kdissect.UserError as wrong:
    print("one line:", wrong)
"""


@pytest.mark.parametrize(
    ("filters", "java", "expected"),
    [
        ("{}", False, "one line: .*Java.*"),
        ("{'api': 'x'}", True, "one line: .*API.*"),
        pytest.param("{}", True, "[1-9][0-9]*", marks=pytest.mark.thorough),
    ],
)
def test_a_python_that_is_not_activated(filters: str, java: bool, expected: str, tmp_path: Path) -> None:
    variables = environment() | {"PATH": "/usr/bin:/bin" if java else str(tmp_path)}
    if not java:
        variables["JAVA_HOME"] = str(tmp_path)
    program = ELSEWHERE if java else WITHOUT_JAVA + ELSEWHERE
    done = subprocess.run(
        [sys.executable, "-c", program, str(SMALL), filters],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.fullmatch(expected, done.stdout.strip()), done.stderr[-2000:]
    assert "Traceback" not in done.stderr


REGISTERED = """
import sys, kdissect
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
kdissect.register(spark)
print(spark.read.format("kdissect").option("table", "connections").load(sys.argv[1]).count())
"""


@pytest.mark.thorough
def test_a_data_source_in_a_session_of_a_python_that_is_not_activated() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REGISTERED, str(SMALL)],
        env=environment() | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert int(done.stdout) > 0, done.stderr[-2000:]
