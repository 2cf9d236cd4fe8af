"""Names of topics before a job: a guess that most often selects what all names of the captures would.

A filter by topic must know the topic of each id, which any message of the captures may tell. A job that only
learns names costs a third of one that makes figures. In captures of more than a moment, the first split
already names the topics that are wanted. So its names serve as a guess while figures are made. Those figures
count if all names of the captures lead to the same ids. Otherwise they are made again.

This serves local runs, whose first split was scanned before Spark was ready.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.spark import tasks
from kdissect.spark.arrow_ipc import pieces_of
from kdissect.spark.startup.local_scan import LocalScan
from kdissect.spark.task_tables import TableOptions
from kdissect.tables.filters import CaptureNames, Filter, wanted_topic_ids


def guess_names(
    splits: Sequence[Split], options: TableOptions, ahead: LocalScan | None
) -> CaptureNames | None:
    """Return the names that the first split tells.

    Return None if it was not scanned, if it has no id of a topic that the filter wants, or if the filter
    needs more than the names of topics.
    """
    if ahead is None or splits[0].index not in ahead.scanned or not options.filter.needs_only_topics:
        return None
    found = [
        part
        for partition in range(ahead.shares.partitions)
        for part in tasks.known_step(_first_split(ahead, partition, splits), splits, options.keys)
    ]
    names = tasks.collect_known(found)
    return names if wanted_topic_ids(options.filter, names) else None


def selects_the_same(wanted: Filter, guess: CaptureNames, names: CaptureNames) -> bool:
    """Return whether a filter by topic selects the same with the guess as with all names of the captures."""
    return wanted_topic_ids(wanted, guess) == wanted_topic_ids(wanted, names)


def _first_split(ahead: LocalScan, partition: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    for ordinal, blob in ahead.blobs[partition]:
        if ordinal != splits[0].index:
            return
        yield from pieces_of(ordinal, blob)
