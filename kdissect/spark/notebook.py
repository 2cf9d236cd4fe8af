"""The tables in a notebook, with the Spark session of the user.

`kdissect.load_tables` runs both passes on the executors of the session, as the commands do. The data source
runs pass one in the planning process and gives each of its partitions the descriptors of some connections,
which that partition dissects. It needs no shuffle, and serves captures that one process can index.
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
    """The public tables as DataFrames; `kdissect.tables.schemas` documents their columns."""

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
    """Return the tables of captures (files, plain or compressed, and directories of them), dissected now.

    The rows stay on the disks of the executors as long as the session has the DataFrames. kdissect must be
    installed there; a session of Spark Connect carries it along. `keylog` names a file with secrets of TLS
    sessions; secrets inside captures are used in any case. Raise InputError for a path that is not a capture,
    or a file that is not a key log.
    """
    index = index_paths([path] if isinstance(path, str | Path) else path)
    keys = keys_for(None if keylog is None else str(keylog), index.files)
    splits = index.splits
    work = jobs.AnalysisWork(
        splits, tuple(ports), treatment=TableOptions(keys=keys), sample=take_sample(splits, ports)
    )
    if is_connect(spark):
        send_package(spark)
    tables = jobs.tables(spark, work, list(LoadedTables._fields))
    return LoadedTables(**tables)


def index_paths(paths: Sequence[str | Path]) -> CaptureIndex:
    """Return the index of captures. Decompressed files lie in a temporary directory until Python ends."""
    _spools.append(tempfile.TemporaryDirectory(prefix="kdissect-"))
    spool = _spools[-1].name
    return index_captures(open_inputs([str(path) for path in paths], spool).files, SPLIT_BYTES)


_spools: list[tempfile.TemporaryDirectory[str]] = []


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("kdissect").option("table", "exchanges").load(path)` work in this session."""
    from kdissect.spark.datasource import CaptureSource

    spark.dataSource.register(CaptureSource)
