"""What carries rows from step to step: RDDs, or the DataFrames of a Spark Connect server, which has no RDDs.

A row is a key and a blob: the ordinal of a split and its pieces on the way to pass two, the name of a table and rows of it
behind that. The steps between are the same functions, of an iterator of rows; RDDs start 1.5 to 2.5 s sooner, since no
plan is made.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kdissect.spark.startup.local_scan import LocalScan

Row: TypeAlias = tuple[Any, bytes]
Step: TypeAlias = Callable[[Iterable[Row]], Iterator[tuple[str, bytes]]]
Scan: TypeAlias = Callable[[Iterable[int]], Iterator[tuple[int, Row]]]
"""From ordinals of splits to partitions of pass two, and a row for each."""

ROWS = "rows"
"""The column of blobs."""

ArrowStep: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

T = TypeVar("T")
R = TypeVar("R")


class Rows(Protocol):
    """Rows in partitions, where the executors are."""

    def through(self, step: Step) -> "Rows":
        """Give what a step makes of each partition."""

    def kept(self) -> "Rows":
        """Give the same rows, which wait on the disks of the executors for more than one job."""

    def only(self, key: str) -> "Rows":
        """Give the rows with a key."""

    def collected(self) -> list[Row]:
        """Bring all rows here."""

    def frame(self, session: "SparkSession", step: ArrowStep, schema: pa.Schema) -> "DataFrame":
        """Give what a step makes of the blobs, which it gets in batches of one column, `rows`."""


class Backend(Protocol):
    """How work gets to the executors, and from one to another."""

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call a function with each item, in a task for each."""

    def scattered(
        self, scan: Scan, ordinals: range, tasks: int, partitions: int, ahead: "LocalScan | None"
    ) -> Rows:
        """Scan splits in so many tasks; give the rows of each partition of pass two, with those of `ahead`, in one task."""


def backend_of(spark: Any) -> Backend:
    """Give the way that a Spark context has, or a session of any kind."""
    if is_connect(spark):
        from kdissect.spark.dataframe_backend import DataFrameBackend

        return DataFrameBackend(spark)
    from kdissect.spark.rdd_backend import RddBackend

    return RddBackend(getattr(spark, "sparkContext", spark))


def is_connect(spark: Any) -> bool:
    """Say whether a session is one of a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
