"""The backend on DataFrames, for Spark Connect, which has no RDDs.

    range of ordinals ─► mapInArrow(scan) ─► repartitionById ─► mapInArrow(step) ─► toArrow

`repartitionById` puts a row into the partition of its number, as the partitioner of an RDD does. Hashing the
number would put several partitions into one task and none into others.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
from kdissect.spark.startup.local_scan import LocalScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_CORES = 1 << 16

NUMBERED = pa.schema([pa.field("key", pa.int64()), pa.field(ROWS, pa.binary())])
NAMED = pa.schema([pa.field("key", pa.string()), pa.field(ROWS, pa.binary())])
ADDRESSED = pa.schema([pa.field("partition", pa.int32()), *NUMBERED])


class DataFrameBackend:
    """The backend of a session of a Spark Connect server."""

    def __init__(self, session: "SparkSession") -> None:
        self._session = session

    @cached_property
    def cores(self) -> int:
        """The number of tasks that run at a time.

        It is the number of parts into which the server divides a range by default.
        """
        parts = self._session.range(MOST_CORES).selectExpr("spark_partition_id() AS part")
        return int(parts.selectExpr("max(part) + 1 AS parts").toArrow()["parts"][0].as_py())

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results of a function for each item, one task each."""
        call = partial(_call_each, function=function, items=tuple(items))
        frame = self._mapped(range(len(items)), len(items), call, NUMBERED)
        # Executors run this package, so their results are as trustworthy as what they were sent.
        return [pickle.loads(result) for _, result in sorted(DataFrameRows(frame).collected())]  # noqa: S301

    def scan_and_shuffle(
        self, scan: Scan, ordinals: Sequence[int], tasks: int, partitions: int, ahead: LocalScan | None
    ) -> "DataFrameRows":
        """Scan and shuffle.

        There is nothing scanned ahead, since executors cannot read files of this machine.
        """
        assert ahead is None, "executors of a server cannot read files of this machine"
        numbers = range(len(ordinals))  # all splits
        frame = self._mapped(numbers, tasks, partial(_with_partition, scan=scan), ADDRESSED)
        return DataFrameRows(frame.repartitionById(partitions, "partition").select("key", ROWS))

    def _mapped(
        self, numbers: range, tasks: int, step: Callable[[Iterable[int]], Iterator[Any]], schema: pa.Schema
    ) -> "DataFrame":
        frame = self._session.range(numbers.start, numbers.stop, 1, max(1, tasks))
        return frame.mapInArrow(partial(_over_numbers, step=step, schema=schema), _spark_schema(schema))


class DataFrameRows:
    """Rows of a DataFrame with the columns key and rows."""

    def __init__(self, frame: "DataFrame") -> None:
        self._frame = frame

    def through(self, step: Step) -> "DataFrameRows":
        """Return the rows that a step makes of each partition."""
        return DataFrameRows(self._frame.mapInArrow(partial(_over_rows, step=step), _spark_schema(NAMED)))

    def through_numbered(self, step: NumberedStep) -> "DataFrameRows":
        """Raise TypeError: executors of a server cannot write files of this machine."""
        raise TypeError(f"a server does not run {step}")

    def kept(self) -> "DataFrameRows":
        """Return the rows, made now and kept as long as this session refers to them.

        A cache would be found by comparing plans, which fails for a function whose plan the server has
        forgotten, and it would outlive the session. A job that needs rows of an executor that was lost fails.
        """
        from pyspark import StorageLevel

        return DataFrameRows(self._frame.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY))

    def only(self, key: str) -> "DataFrameRows":
        """Return the rows with a key."""
        return DataFrameRows(self._frame.where(self._frame["key"] == key))

    def collected(self) -> list[Row]:
        """Return all rows to the driver."""
        found = self._frame.toArrow()
        return list(zip(found["key"].to_pylist(), found[ROWS].to_pylist(), strict=True))

    def frame(self, _session: "SparkSession", step: ArrowStep, schema: pa.Schema) -> "DataFrame":
        """Return the DataFrame that a step makes of the blobs."""
        return self._frame.select(ROWS).mapInArrow(step, _spark_schema(schema))


def _over_numbers(
    batches: Iterable[pa.RecordBatch], step: Callable[[Iterable[int]], Iterator[Any]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    numbers = (number for batch in batches for number in batch["id"].to_pylist())
    return _in_batches(step(numbers), schema)


def _over_rows(batches: Iterable[pa.RecordBatch], step: Step) -> Iterator[pa.RecordBatch]:
    rows = (
        (key.as_py(), blob.as_py())  # one at a time: a batch may hold many blobs
        for batch in batches
        for key, blob in zip(batch["key"], batch[ROWS], strict=True)
    )
    return _in_batches(step(rows), NAMED)


def _in_batches(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Return a batch for each row, since blobs are few and large."""
    for row in rows:
        columns = [pa.array([value], kind) for value, kind in zip(row, schema.types, strict=True)]
        yield pa.record_batch(columns, schema=schema)


def _with_partition(ordinals: Iterable[int], scan: Scan) -> Iterator[tuple[int, int, bytes]]:
    for partition, (ordinal, blob) in scan(ordinals):
        yield partition, ordinal, blob


def _call_each(numbers: Iterable[int], function: Callable[[T], R], items: Sequence[T]) -> Iterator[Row]:
    for number in numbers:
        yield number, pickle.dumps(function(items[number]))


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
