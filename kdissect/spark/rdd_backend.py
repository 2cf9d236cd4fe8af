"""The backend on RDDs: without SQL, whose plan would take longer than dissecting a small capture.

Descriptors and results of tasks go through Spark, which holds some copies of each on the way. Figures of
100,000 connections took 100 MB of Java's memory that way. So where tasks and driver share a machine,
descriptors and large results stay in files (see `file_parts`), and Spark shuffles and collects their places.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdissect.spark.arrow_ipc import Blob
from kdissect.spark.backend import (
    ROWS,
    ArrowStep,
    NumberedStep,
    R,
    Row,
    Scan,
    Step,
    T,
)
from kdissect.spark.file_parts import SHARED_FOLDER, FilePart, new_path, parts_in
from kdissect.spark.startup.local_scan import LocalScan

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession

LARGE_RESULT = 1 << 12  # bytes; Java writes what is less as text, for Py4J


class RddBackend:
    """The backend of a Spark context."""

    def __init__(self, context: "SparkContext") -> None:
        self._context = context
        self._cores = 0

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time.

        It changes as executors come to a cluster. A question takes two messages, so others are asked once.
        """
        if not self._cores or not str(self._context.master).startswith("local"):
            self._cores = self._context.defaultParallelism
        return self._cores

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results of a function for each item, one task each."""
        return self._context.parallelize(items, len(items)).map(function).collect()

    def scan_and_shuffle(
        self, scan: Scan, ordinals: Sequence[int], tasks: int, partitions: int, ahead: LocalScan | None
    ) -> "RddRows":
        """Scan and shuffle. The tasks of pass two themselves read what `ahead` holds."""
        rows: RDD[tuple[int, Blob]]
        if ordinals:
            folder = _shared_folder(self._context)
            step = partial(_scanned_into_file, scan=scan, folder=folder) if folder else scan
            rows = self._context.parallelize(ordinals, tasks).mapPartitions(step)
            rows = rows.partitionBy(partitions, _partition_number)
        else:
            rows = _no_rows(self._context, partitions)
        blobs = ahead.blobs if ahead else ((),) * partitions
        return RddRows(rows.mapPartitionsWithIndex(partial(_rows_of_partition, ahead=blobs)))


class RddRows:
    """Rows of an RDD."""

    def __init__(self, rdd: "RDD[Any]") -> None:
        self._rdd = rdd

    def through(self, step: Step) -> "RddRows":
        """Return the rows that a step makes of each partition."""
        return RddRows(self._rdd.mapPartitions(step))

    def through_numbered(self, step: NumberedStep) -> "RddRows":
        """Return the rows that a step makes of each partition, which is told the number of the partition."""
        return RddRows(self._rdd.mapPartitionsWithIndex(step))

    def kept(self) -> "RddRows":
        """Return the rows, kept on disk while this process refers to them.

        Rows lost with an executor are made again.
        """
        from pyspark import StorageLevel

        return RddRows(self._rdd.persist(StorageLevel.DISK_ONLY))

    def only(self, key: str) -> "RddRows":
        """Return the rows with a key."""
        return RddRows(self._rdd.filter(partial(_has, key=key)))

    def collected(self) -> list[Row]:
        """Return all rows to the driver."""
        folder = _shared_folder(self._rdd.context)
        if folder is None:
            return self._rdd.collect()
        found = _results_of(self._rdd.mapPartitions(partial(_put_aside, folder=folder)))
        return [(key, _taken_back(row) if isinstance(row, FilePart) else row) for key, row in found]

    def frame(self, session: "SparkSession", step: ArrowStep, schema: pa.Schema) -> "DataFrame":
        """Return what a step makes of the blobs.

        DataFrame.mapInArrow without its check for pandas, which it does not use.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.udf import UserDefinedFunction
        from pyspark.util import PythonEvalType

        blobs = session.createDataFrame(self._rdd.map(_blob_alone), f"{ROWS} binary", verifySchema=False)
        function = UserDefinedFunction(
            step,
            from_arrow_schema(schema),
            name="kdissect",
            evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
        )
        return DataFrame(blobs._jdf.mapInArrow(function(blobs[ROWS])._jc, False, None), session)


def _shared_folder(context: "SparkContext") -> str | None:
    """Return the directory in which all tasks of a run may leave files, None if they share no machine."""
    return context._conf.get(SHARED_FOLDER)  # `getConf` copies all settings, one by one


def _scanned_into_file(ordinals: Iterable[int], scan: Scan, folder: str) -> Iterator[tuple[int, Blob]]:
    """Return what a scan returns, with its descriptors in one file."""
    with parts_in(new_path(folder)) as writer:
        for partition, (ordinal, blob) in scan(ordinals):
            yield partition, (ordinal, writer.put(blob))


def _results_of(rows: "RDD[Any]") -> Iterator[Any]:
    """Yield what `rows.collect()` returns, of a job that another thread of Spark waits for.

    Behind each job that it waits for itself, Spark describes that it looks for checkpoints, as JSON. It takes
    0.05 to 0.1 s to load what writes JSON and to start a server for the results, and the report waits for it.
    """
    deserializer: Any = rows._jrdd_deserializer
    for part in rows._jrdd.collectAsync().get():
        yield from deserializer.serializer.loads(part)


def _put_aside(rows: Iterable[Row], folder: str) -> Iterator[tuple[Any, bytes | FilePart]]:
    """Return rows with large ones in files, one each."""
    for key, row in rows:
        if len(row) < LARGE_RESULT:
            yield key, row
            continue
        with parts_in(new_path(folder)) as writer:
            yield key, writer.put(row)


def _taken_back(part: FilePart) -> bytes:
    row = part.read()
    Path(part.path).unlink()
    return row


def _partition_number(partition: int) -> int:
    return partition


def _no_rows(context: "SparkContext", partitions: int) -> "RDD[Any]":
    """Return partitions without rows. `parallelize` would write these to a file for Java to read."""
    from pyspark import RDD

    jvm: Any = context._jvm
    return RDD(context._jsc.parallelize(jvm.java.util.ArrayList(), partitions), context)


def _rows_of_partition(
    partition: int, rows: Iterable[tuple[int, Blob]], ahead: Sequence[Sequence[Blob]]
) -> Iterator[Blob]:
    yield from ahead[partition]
    for _, row in rows:
        yield row


def _has(row: Row, key: str) -> bool:
    return bool(row[0] == key)


def _blob_alone(row: Row) -> tuple[bytes]:
    return (row[1],)
