"""Settings of a watch: what it reads, how often, and what a run that goes on must have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kdissect.report.model.summary import AppliedFilter
from kdissect.spark.watch.batch_step import DEFAULT_AGES
from kdissect.spark.watch.file_stream import MOST_FILES, SETTLE_SECONDS
from kdissect.spark.watch.watched_directory import WatchedDirectory
from kdissect.tables.dissection import AgeLimits
from kdissect.tables.filters import Filter

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Settings of a watch."""

    source: WatchedDirectory
    every_s: float = 5.0
    ports: tuple[int, ...] = ()
    keylog: str | None = None
    partitions: int = PARTITIONS
    most_files: int = MOST_FILES
    settle_s: float = SETTLE_SECONDS
    until_idle_s: float | None = None
    skip_behind_s: float | None = None
    """Files that are older than the newest one by more than this are skipped; None: none."""
    spool: str | None = None
    """Directory or URI for unpacked captures, which executors share; None: a directory of this machine."""
    age_limits: AgeLimits = DEFAULT_AGES
    filters: tuple[AppliedFilter, ...] = ()
    filter_from: Callable[[int], Filter] = lambda _: Filter()
    """Makes of the filters a Filter for captures that begin at some time in ns since the epoch."""

    def about(self) -> dict[str, Any]:
        """Return what a run that goes on must have in common with the one before."""
        filters = [[one.option, *one.values] for one in self.filters]
        return {
            "directory": self.source.label,
            "ports": sorted(self.ports),
            "partitions": self.partitions,
            **({"filters": filters} if filters else {}),
        }
