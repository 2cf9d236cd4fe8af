"""The Spark jobs: ordinals of splits in, a partial summary or public tables out.

    splits ─► scan, parted by bucket ─► shuffle by partition ─► in order of splits ─► dissect and add up, or rows of a table

All pieces of a connection meet in one partition. What crosses the shuffle are descriptors, never payload: one blob (an
Arrow IPC stream) for each split and partition, however many connections there are, so Spark has little to handle. For the
same reason `analyze` needs no SQL: a plan would take longer to be made than a small capture to be dissected. Tables are
written by Spark's SQL writers, so there the last step runs under mapInArrow.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from kdissect.capture.pieces import Counts
from kdissect.capture.splits import Split
from kdissect.pipeline import steps
from kdissect.report.partials import Partial, from_arrow
from kdissect.tables import TABLES

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession

Step: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Blob: TypeAlias = tuple[int, bytes]  # ordinal of a split, and some of its pieces as an Arrow IPC stream

PARTITION_BYTES = 256 << 20  # capture bytes for one partition of pass two, when there is much to do
MOST_PARTITIONS = 4096


@dataclass(frozen=True, slots=True)
class Work:
    """What to dissect: every split of the captures, in order, and how finely pass two is cut (0: by size and cores)."""

    splits: tuple[Split, ...]
    ports: tuple[int, ...] = ()
    partitions: int = 0

    def partitions_for(self, cores: int) -> int:
        """Give the number of partitions of pass two: a multiple of `cores`."""
        if self.partitions:
            return self.partitions
        size = sum(split.stop - split.start for split in self.splits)
        rounds = -(-size // (PARTITION_BYTES * cores))
        return min(max(1, rounds) * cores, max(cores, MOST_PARTITIONS))


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the job of `analyze` gives: mergeable figures, and what pass one counted."""

    partial: Partial
    counts: Counts


def analyze(context: "SparkContext", work: Work) -> Analysis:
    """Run the whole pipeline in one job."""
    step = partial(steps.summary_step, splits=work.splits)
    batches = [
        batch
        for blob in _shuffled(context, work).mapPartitions(partial(_over_blobs, step=step)).collect()
        for batch in batches_in(blob)
    ]
    return Analysis(from_arrow(steps.partials_in(batches)), steps.counts_in(batches))


def tables(session: "SparkSession", work: Work, wanted: Sequence[str]) -> "dict[str, DataFrame]":
    """Give public tables as DataFrames, topic ids named from anywhere in the captures.

    The pieces are kept on disk between the jobs; names, where they are wanted, take a job of their own first.
    """
    from pyspark import StorageLevel

    pieces = _shuffled(session.sparkContext, work)
    if len(wanted) > 1 or "partitions" in wanted:
        pieces = pieces.persist(StorageLevel.DISK_ONLY)
    names = _names(pieces, work) if "partitions" in wanted else {}
    blobs = session.createDataFrame(pieces.values(), "split int, pieces binary", verifySchema=False)
    return {
        table: map_in_arrow(
            blobs, partial(_rows_of, splits=work.splits, table=table, names=names), TABLES[table]
        )
        for table in wanted
    }


def map_in_arrow(frame: "DataFrame", step: Step, schema: pa.Schema) -> "DataFrame":
    """Run `step` over the partitions of `frame`.

    This is DataFrame.mapInArrow without its demand for pandas, which it does not use.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    spark_schema = from_arrow_schema(schema)
    if not hasattr(frame, "_jdf"):  # Spark Connect
        return frame.mapInArrow(step, spark_schema)
    function = UserDefinedFunction(
        step, spark_schema, name="kdissect", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = function(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)


def _shuffled(context: "SparkContext", work: Work) -> "RDD[tuple[int, Blob]]":
    """Pass one, and the way of its pieces to pass two."""
    count = len(work.splits)
    partitions = work.partitions_for(context.defaultParallelism)
    scan = partial(_scanned, splits=work.splits, ports=work.ports, partitions=partitions)
    return context.parallelize(range(count), count).mapPartitions(scan).partitionBy(partitions, _itself)


def _scanned(
    ordinals: Iterable[int], splits: Sequence[Split], ports: Sequence[int], partitions: int
) -> Iterator[tuple[int, Blob]]:
    for ordinal in ordinals:
        for pieces in steps.scan_step([pa.record_batch({"split": [ordinal]})], splits, ports):
            for partition, rows in steps.routed(pieces, partitions):
                yield partition, (ordinal, blob_of(rows))


def _itself(partition: int) -> int:
    return partition


def _in_order(blobs: Iterable[Blob]) -> Iterator[pa.RecordBatch]:
    """Give the pieces of one partition by split; the blobs, all of them, are small beside the payload they describe."""
    for _, blob in sorted(blobs):
        yield from batches_in(blob)


def _over_blobs(rows: Iterable[tuple[int, Blob]], step: Step) -> Iterator[bytes]:
    for batch in step(_in_order(blob for _, blob in rows)):
        yield blob_of(batch)


def _rows_of(
    batches: Iterable[pa.RecordBatch], splits: Sequence[Split], table: str, names: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    blobs = (
        blob
        for batch in batches
        for blob in zip(batch["split"].to_pylist(), batch["pieces"].to_pylist(), strict=True)
    )
    yield from steps.table_step(_in_order(blobs), splits, table, names)


def _names(pieces: "RDD[tuple[int, Blob]]", work: Work) -> Mapping[str, str]:
    """Learn the topics of topic ids; should one id have had several names, the first by the alphabet."""
    step = partial(steps.names_step, splits=work.splits)
    found = [
        (row["topic_id"], row["topic"])
        for blob in pieces.mapPartitions(partial(_over_blobs, step=step)).collect()
        for batch in batches_in(blob)
        for row in batch.to_pylist()
    ]
    return dict(sorted(found, reverse=True))


def blob_of(batch: pa.RecordBatch) -> bytes:
    """Write a batch as an Arrow IPC stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def batches_in(blob: bytes) -> list[pa.RecordBatch]:
    """Read what `blob_of` wrote."""
    return pa.ipc.open_stream(blob).read_all().to_batches()  # type: ignore[no-any-return]
