"""The backend without Spark: this process runs the steps on captures so small that Spark does not pay.

The steps are the same functions as elsewhere, and figures do not depend on how connections are divided, so
all of them are in one partition. Nothing here makes DataFrames, which need Spark.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdissect.spark.backend import ArrowStep, NumberedStep, R, Row, Scan, Step, T

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kdissect.spark.startup.local_scan import LocalScan


class InProcessBackend:
    """The backend of a run without Spark."""

    cores = 1

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results of a function for each item."""
        return list(map(function, items))

    def scan_and_shuffle(
        self,
        scan: Scan,
        ordinals: Sequence[int],
        tasks: int,  # noqa: ARG002 - as those of Spark
        partitions: int,  # noqa: ARG002
        ahead: "LocalScan | None",
    ) -> "InProcessRows":
        """Scan. Return the rows of all partitions, with those of `ahead`."""
        done = chain.from_iterable(ahead.blobs) if ahead else ()
        return InProcessRows([*done, *(row for _, row in scan(ordinals))])


class InProcessRows:
    """Rows in a list."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def through(self, step: Step) -> "InProcessRows":
        """Return the rows that a step makes of all rows."""
        return InProcessRows(list(step(self._rows)))

    def through_numbered(self, step: NumberedStep) -> "InProcessRows":
        """Return the rows that a step makes of all rows, as partition 0."""
        return InProcessRows(list(step(0, self._rows)))

    def kept(self) -> "InProcessRows":
        """Return the same rows."""
        return self

    def only(self, key: str) -> "InProcessRows":
        """Return the rows with a key."""
        return InProcessRows([row for row in self._rows if row[0] == key])

    def collected(self) -> list[Row]:
        """Return all rows."""
        return self._rows

    def frame(
        self,
        session: "SparkSession",  # noqa: ARG002 - as that of Spark
        step: ArrowStep,  # noqa: ARG002
        schema: pa.Schema,  # noqa: ARG002
    ) -> "DataFrame":
        """Raise TypeError: DataFrames need Spark."""
        raise TypeError("a run without Spark makes no DataFrame")
