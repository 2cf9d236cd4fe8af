"""The tables in a notebook, with the Spark session of the user.

`kdissect.load_tables` runs both passes on the executors of the session, as the commands do. The data source
runs pass one in the planning process and gives each of its partitions the descriptors of some connections,
which that partition dissects. It needs no shuffle, and serves captures that one process can index.
"""

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kdissect.capture.index.index import (
    SPLIT_BYTES,
    CaptureIndex,
    index_captures,
)
from kdissect.capture.index.sampling import take_sample
from kdissect.capture.inputs import open_inputs
from kdissect.library.filter_arguments import (
    Moment,
    Names,
    check_moments,
    name_fields,
    ports_of,
    time_fields,
)
from kdissect.spark import table_jobs
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.backend import is_connect
from kdissect.spark.connect import send_package
from kdissect.spark.failures import is_from_spark, job_error
from kdissect.spark.startup.java import find_java
from kdissect.spark.table_columns import with_comments
from kdissect.spark.task_tables import TableOptions
from kdissect.streams.tls.keylog import keys_for
from kdissect.tables.filters import Filter
from kdissect.tables.schemas import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LoadedTables(NamedTuple):
    """The public tables as DataFrames; `kdissect.tables.schemas` documents their columns."""

    connections: "DataFrame"
    exchanges: "DataFrame"
    partitions: "DataFrame"
    group_events: "DataFrame"
    transaction_events: "DataFrame"


def load_tables(
    spark: "SparkSession | None",
    path: str | Path | Sequence[str | Path],
    *,
    api: Names = (),
    client: Names = (),
    topic: Names = (),
    group: Names = (),
    broker: Names = (),
    error: Names = (),
    since: Moment | None = None,
    until: Moment | None = None,
    port: int | Iterable[int] = (),
    keylog: str | Path | None = None,
    ports: Iterable[int] = (),
) -> LoadedTables:
    """Return the tables of captures (files, plain or compressed, and directories of them), dissected now.

    The filters are those of the commands and of `kdissect.read`: different ones are ANDed, several values of
    one are ORed. `keylog` names a file with secrets of TLS sessions; secrets inside captures are used in any
    case. `ports` is the old name of `port`. Each column has a comment with its meaning and unit.

    The rows stay on the disks of the executors as long as the session has the DataFrames. kdissect must be
    installed there; a session of Spark Connect carries it along. Without a session (None), one is started on
    this machine. Raise UserError, in one sentence, for what is wrong: no Java, no capture, a wrong filter.
    """
    fields = name_fields(api=api, client=client, topic=topic, group=group, broker=broker, error=error)
    check_moments(since, until)
    wanted_ports = (*ports_of(port), *ports)
    index = index_paths([path] if isinstance(path, str | Path) else path)
    keys = keys_for(None if keylog is None else str(keylog), index.files)
    filter = Filter(**fields, **time_fields(since, until, index.earliest_time_ns or 0))
    work = AnalysisWork(
        index.splits,
        wanted_ports,
        treatment=TableOptions(filter, keys=keys),
        sample=take_sample(index.splits, wanted_ports),
    )
    session = local_session() if spark is None else spark
    try:
        if is_connect(session):
            send_package(session)
        else:
            use_this_python(session)
        tables = table_jobs.tables(session, work, list(LoadedTables._fields))
    except Exception as error_of_spark:
        if not is_from_spark(error_of_spark):
            raise
        raise job_error(error_of_spark) from None
    return LoadedTables(**{name: with_comments(frame, COLUMNS[name]) for name, frame in tables.items()})


def local_session() -> "SparkSession":
    """Return the session of this process, or a new one on this machine. Raise JavaMissingError."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    java = find_java()
    os.environ.setdefault("JAVA_HOME", str(java.program.resolve().parents[1]))
    builder = SparkSession.builder.master("local[*]").appName("kdissect")
    return builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()


def use_this_python(session: "SparkSession") -> None:
    """Make local workers run this interpreter, which has kdissect, unless the user chose another one.

    Spark starts `python3` of the PATH, which in a virtual environment that is not activated is another one.
    """
    context = session.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().get("spark.pyspark.python")
    if (context.master or "").startswith("local") and not chosen:
        context.pythonExec = sys.executable


def index_paths(paths: Sequence[str | Path]) -> CaptureIndex:
    """Return the index of captures. Decompressed files lie in a temporary directory until Python ends."""
    _spools.append(tempfile.TemporaryDirectory(prefix="kdissect-"))
    spool = _spools[-1].name
    return index_captures(open_inputs([str(path) for path in paths], spool).files, SPLIT_BYTES)


_spools: list[tempfile.TemporaryDirectory[str]] = []


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("kdissect").option("table", "exchanges").load(path)` work in this session."""
    from kdissect.spark.datasource import CaptureSource

    if not is_connect(spark):
        use_this_python(spark)
    spark.dataSource.register(CaptureSource)
