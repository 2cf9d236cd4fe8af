"""The tables in a notebook, with the Spark session that is there: `kdissect.tables.schemas` and `spark.read.format("kdissect")`.

`tables` runs both passes on the session's own executors, as the commands do. The data source does pass one while Spark
plans (in one process), hands each of its partitions the descriptors of some connections, and has each dissect those: no
shuffle, for captures that one process can look over.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kdissect.capture.index.index import (
    SPLIT_BYTES,
    CaptureIndex,
    index_captures,
)
from kdissect.capture.index.sampling import take_sample
from kdissect.capture.inputs import open_inputs
from kdissect.spark import jobs
from kdissect.spark.backend import is_connect
from kdissect.spark.connect import send_package
from kdissect.spark.tasks import TableOptions
from kdissect.streams.tls.keylog import keys_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LoadedTables(NamedTuple):
    """The public tables as DataFrames; `kdissect.tables.schemas` of the package documents their columns."""

    connections: "DataFrame"
    exchanges: "DataFrame"
    partitions: "DataFrame"
    group_events: "DataFrame"
    transaction_events: "DataFrame"


def load_tables(
    spark: "SparkSession",
    path: str | Path | Sequence[str | Path],
    *,
    ports: Sequence[int] = (),
    keylog: str | Path | None = None,
) -> LoadedTables:
    """Dissect captures (files, plain or compressed, and directories of them) here and now; give the tables.

    The rows stay on the disks of the executors as long as the session has the DataFrames. kdissect must be installed there;
    a session of Spark Connect takes it along.
    `keylog` names a file with secrets of TLS sessions; those inside captures are used in any case. Raises InputError for a path
    that is no capture, or no key log.
    """
    found_in = index_paths([path] if isinstance(path, str | Path) else path)
    keys = keys_for(None if keylog is None else str(keylog), found_in.files)
    splits = found_in.splits
    work = jobs.AnalysisWork(
        splits, tuple(ports), treatment=TableOptions(keys=keys), sample=take_sample(splits, ports)
    )
    if is_connect(spark):
        send_package(spark)
    found = jobs.tables(spark, work, list(LoadedTables._fields))
    return LoadedTables(**found)


def index_paths(paths: Sequence[str | Path]) -> CaptureIndex:
    """Find the captures and look them over; what must be decompressed lies in a temporary directory until Python ends."""
    _spools.append(tempfile.TemporaryDirectory(prefix="kdissect-"))
    spool = _spools[-1].name
    return index_captures(open_inputs([str(path) for path in paths], spool).files, SPLIT_BYTES)


_spools: list[tempfile.TemporaryDirectory[str]] = []


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("kdissect").option("table", "exchanges").load(path)` work in this session."""
    from kdissect.spark.datasource import CaptureSource

    spark.dataSource.register(CaptureSource)
