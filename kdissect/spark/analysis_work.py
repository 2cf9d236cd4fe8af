"""The work of a run: which captures are dissected, and how."""

from dataclasses import dataclass, replace

from kdissect.capture.index.sampling import NO_SAMPLE, Sample
from kdissect.capture.index.splits import Split
from kdissect.spark.guessed_names import FirstSplit, first_split
from kdissect.spark.partitioning import Partitioning, shares_of
from kdissect.spark.pass_meters import PassMeters
from kdissect.spark.reading_stop import ReadingStop
from kdissect.spark.startup.local_scan import LocalScan
from kdissect.spark.task_tables import DEFAULT, TableOptions


@dataclass(frozen=True, slots=True)
class AnalysisWork:
    """Captures to dissect, and the way to do it.

    Every split of the captures in order, the partitions of pass two, and the options of the tables.

    `sample` estimates the size of the connections. `partitions` fixes the number of partitions; 0 derives it
    from sample and cores. `ahead` holds the splits that were scanned before Spark was ready.
    """

    splits: tuple[Split, ...]
    ports: tuple[int, ...] = ()
    partitions: int = 0
    treatment: TableOptions = DEFAULT
    sample: Sample = NO_SAMPLE
    ahead: LocalScan | None = None
    meters: PassMeters | None = None
    """Counter of the bytes that are done, on this machine."""
    stop: ReadingStop | None = None
    """Watcher for the user's wish to end the reading, on this machine."""
    guess_by: FirstSplit | None = None
    """Descriptors that tell names, which probably select what all names of the captures do."""

    def shares(self, cores: int) -> Partitioning:
        """Return how connections are partitioned for a number of cores."""
        if self.ahead:
            return self.ahead.shares
        return shares_of(self.sample, cores, self.partitions)

    @property
    def packet_bytes(self) -> int:
        """The mean size of a packet and its header in the captures."""
        packets = sum(split.packets for split in self.splits)
        return sum(split.stop - split.start for split in self.splits) // max(1, packets)

    def with_guess(self) -> "AnalysisWork":
        """Return this work so that it guesses names, if it can: for figures only."""
        return replace(self, guess_by=first_split(self.ahead, self.splits, self.treatment))
