"""Splits that are scanned in this process, as while Spark starts."""

from collections.abc import Sequence
from pathlib import Path

from kdissect.capture.index.sampling import NO_SAMPLE
from kdissect.capture.index.splits import Split
from kdissect.capture.scan import scan_split
from kdissect.spark.file_parts import parts_in
from kdissect.spark.partitioning import Partitioning
from kdissect.spark.startup.local_scan import LocalScan, LocalScanner


def scanned_here(splits: Sequence[Split], shares: Partitioning, folder: Path) -> LocalScan:
    """Return the scan of splits, whose descriptors lie in a file of the folder."""
    with parts_in(folder / "pieces") as writer:
        here = LocalScanner((), NO_SAMPLE, shares, writer)
        kept = {split.index: here.keep(scan_split(split)) for split in splits}
    return LocalScan.of(kept, shares)
