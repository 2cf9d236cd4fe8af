"""Names of topics before figures: a guess that most often selects what all names of the captures would.

A filter by topic must know the topic of each id, which any message of the captures may tell. A job that only
learns names costs a third of one that makes figures. In captures of more than a moment, the first split
already names the topics that are wanted. So every task guesses by the names of the first split, and makes
figures at once. They count if all names of the captures lead to the same ids. Otherwise they are made again.

All tasks read the same split, so they guess the same. They have loaded what that needs anyway: the process of
the command would need 0.2 s, while the tasks wait for it. This serves local runs, whose first split was
scanned before Spark was ready.
"""

from collections.abc import Sequence
from typing import TypeAlias

from kdissect.capture.index.splits import Split
from kdissect.spark import tasks
from kdissect.spark.arrow_ipc import Blob, numbered_pieces
from kdissect.spark.startup.local_scan import LocalScan
from kdissect.spark.task_tables import TableOptions
from kdissect.tables.filters import CaptureNames, wanted_topic_ids

FirstSplit: TypeAlias = tuple[Blob, ...]
"""The descriptors of the first split, one blob for each partition."""


def first_split(ahead: LocalScan | None, splits: Sequence[Split], options: TableOptions) -> FirstSplit | None:
    """Return what names are guessed by.

    Return None if the first split was not scanned, or if the filter needs more than the names of topics.
    """
    if ahead is None or splits[0].index not in ahead.scanned or not options.filter.needs_only_topics:
        return None
    firsts = (blobs[0] for blobs in ahead.blobs if blobs)
    return tuple(blob for blob in firsts if blob[0] == splits[0].index)


def guess_names(first: FirstSplit, splits: Sequence[Split], options: TableOptions) -> CaptureNames | None:
    """Return the names that the first split tells; None if it has no id of a topic that the filter wants.

    Raise OSError if the capture cannot be read.
    """
    known = [
        part for blob in first for part in tasks.known_step(numbered_pieces(*blob), splits, options.keys)
    ]
    names = tasks.collect_known(known)
    return names if wanted_topic_ids(options.filter, names) else None
