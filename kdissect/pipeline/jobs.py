"""The Spark jobs: ordinals of splits in, a partial summary or public tables out.

    splits ─► mapInArrow(scan) ─► shuffle by bucket, sort by (split, piece) ─► mapInArrow(dissect and add up, or rows)

All pieces of a connection share a bucket, so they meet in one partition, in capture order. What crosses the shuffle are
descriptors, never payload. Each function here builds one DataFrame; Spark sees only our steps and the shuffle.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from kdissect.capture.pieces import Counts
from kdissect.capture.splits import Split
from kdissect.pipeline import steps
from kdissect.report.partials import PARTIAL, Partial, from_arrow
from kdissect.tables import NAMES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

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


def analyze(session: "SparkSession", work: Work) -> Analysis:
    """Run the whole pipeline in one job."""
    rows = map_in_arrow(_pieces(session, work), partial(steps.summary_step, splits=work.splits), PARTIAL)
    batches = rows.toArrow().to_batches()
    return Analysis(from_arrow(steps.partials_in(batches)), steps.counts_in(batches))


def tables(session: "SparkSession", work: Work, wanted: Sequence[str]) -> "dict[str, DataFrame]":
    """Give public tables as DataFrames, topic ids named from anywhere in the captures.

    The pieces are kept on disk between the jobs; names, where they are wanted, take a job of their own first.
    """
    from pyspark import StorageLevel

    pieces = _pieces(session, work)
    if len(wanted) > 1 or "partitions" in wanted:
        pieces = pieces.persist(StorageLevel.DISK_ONLY)
    names = _names(pieces, work) if "partitions" in wanted else {}
    return {
        table: map_in_arrow(
            pieces, partial(steps.table_step, splits=work.splits, table=table, names=names), TABLES[table]
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


def _pieces(session: "SparkSession", work: Work) -> "DataFrame":
    """Pass one, and the way of its pieces to pass two."""
    from pyspark.sql import functions

    count = len(work.splits)
    partitions = work.partitions_for(session.sparkContext.defaultParallelism)
    ordinals = session.range(0, count, 1, count).withColumnRenamed("id", "split")
    scan = partial(steps.scan_step, splits=work.splits, ports=work.ports)
    bucket = functions.pmod(functions.col("bucket"), functions.lit(partitions))
    return (
        map_in_arrow(ordinals, scan, steps.SHUFFLED)
        .repartitionById(partitions, bucket)
        .sortWithinPartitions("split", "piece")
    )


def _names(pieces: "DataFrame", work: Work) -> Mapping[str, str]:
    """Learn the topics of topic ids; should one id have had several names, the first by the alphabet."""
    rows = map_in_arrow(pieces, partial(steps.names_step, splits=work.splits), NAMES).toArrow()
    pairs = zip(rows["topic_id"].to_pylist(), rows["topic"].to_pylist(), strict=True)
    return dict(sorted(pairs, reverse=True))
