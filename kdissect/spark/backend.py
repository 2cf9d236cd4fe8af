"""Carriers of rows between the steps of a job: RDDs, or DataFrames for Spark Connect, which has no RDDs.

A row is a key and a blob: before pass two the ordinal of a split and its descriptors (or their place in a
file), after it the name of a table and rows of that table. Steps are functions from iterators of rows to
iterators of rows, the same for both backends. RDDs start 1.5 to 2.5 s sooner, since they need no plan.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kdissect.spark.startup.local_scan import LocalScan

Row: TypeAlias = tuple[Any, bytes]
Step: TypeAlias = Callable[[Iterable[Any]], Iterator[tuple[str, bytes]]]
"""From the descriptors of a partition, or from the rows that another step made of them."""
NumberedStep: TypeAlias = Callable[[int, Iterable[Any]], Iterator[tuple[str, bytes]]]
Scan: TypeAlias = Callable[[Iterable[int]], Iterator[tuple[int, Row]]]
"""From ordinals of splits to pairs of a partition of pass two and descriptors."""

ROWS = "rows"
"""The name of the column of blobs."""

ArrowStep: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

T = TypeVar("T")
R = TypeVar("R")


class Rows(Protocol):
    """Rows in partitions, held by the executors."""

    def through(self, step: Step) -> "Rows":
        """Return the rows that a step makes of each partition."""

    def through_numbered(self, step: "NumberedStep") -> "Rows":
        """Return the rows that a step makes of each partition, which is told the number of the partition.

        Only backends whose tasks may write files of this machine have this.
        """

    def kept(self) -> "Rows":
        """Return the same rows, kept on the disks of the executors for several jobs."""

    def only(self, key: str) -> "Rows":
        """Return the rows with a key."""

    def collected(self) -> list[Row]:
        """Return all rows to the driver."""

    def frame(self, session: "SparkSession", step: ArrowStep, schema: pa.Schema) -> "DataFrame":
        """Return the DataFrame that a step makes of batches of blobs (one column, `rows`)."""


class Backend(Protocol):
    """How work gets to the executors, and rows from one executor to another."""

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time."""

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results of a function for each item, one task each."""

    def scan_and_shuffle(
        self, scan: Scan, ordinals: Sequence[int], tasks: int, partitions: int, ahead: "LocalScan | None"
    ) -> Rows:
        """Scan splits in a number of tasks.

        Return the rows by partition of pass two, with those of `ahead`.
        """


def is_connect(spark: Any) -> bool:
    """Return whether a session belongs to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
