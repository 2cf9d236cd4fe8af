"""The engine of a run on small captures: this process does the work of Spark's tasks.

Spark and its workers take longer to start than a few megabytes take to dissect, and more than half of the
processor time of such a run. If the user switches it on, commands that only need figures run the steps
here, for small captures and unless a master is chosen. The steps are the same functions, and figures do not
depend on how connections are divided. DataFrames need Spark, so `sql`, `export` and `watch` always start
it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Self

from kdissect.jit import kernel_cache
from kdissect.spark.scratch_engine import ScratchEngine
from kdissect.spark.spark_settings import LOCAL_MASTER, SparkSettings
from kdissect.spark.startup.java import find_java
from kdissect.startup_switch import Shortcut, is_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from kdissect.spark.in_process_backend import InProcessBackend
    from kdissect.spark.reading_stop import ReadingStop


def runs_in_process(settings: SparkSettings, paths: "Sequence[str]") -> bool:
    """Return whether figures of captures are made without Spark."""
    return (
        settings.master == LOCAL_MASTER and is_on(Shortcut.IN_PROCESS) and kernel_cache.are_small(list(paths))
    )


class InProcessEngine(ScratchEngine):
    """The place of a run without Spark. This process scans everything, so nothing is scanned ahead."""

    @classmethod
    def start(cls, settings: SparkSettings) -> Self:
        """Return an engine.

        Raise JavaMissingError: a machine that can only read small captures is better known at once.
        """
        find_java()
        return cls(settings)

    def build(self) -> None:
        """Do nothing: there is nothing to start."""

    def is_up(self) -> bool:
        """Return True."""
        return True

    def context(self) -> "InProcessBackend":
        """Return what jobs run on."""
        from kdissect.spark.in_process_backend import InProcessBackend

        return InProcessBackend()

    def session(self) -> "SparkSession":
        """Raise TypeError: DataFrames need Spark."""
        raise TypeError("a run without Spark has no session")

    def reading_stop(self, folder: Path) -> "ReadingStop":
        """Return what ends the reading of a run, by files in a folder."""
        from kdissect.spark.reading_stop import ReadingStop

        return ReadingStop.new(folder)
