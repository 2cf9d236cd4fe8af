"""Index and pass one of a capture in one walk, as a local run makes them, but without threads."""

from functools import partial
from pathlib import Path

import pyarrow as pa

from kdissect.capture.index.index import CaptureIndex, index_captures, one_by_one
from kdissect.capture.index.range_pieces import SplitScans
from kdissect.capture.inputs import CaptureFile
from kdissect.spark.arrow_ipc import numbered_pieces, pieces_blob
from kdissect.spark.tasks import scan_step


def index_and_pieces(path: Path) -> tuple[CaptureIndex, list[pa.RecordBatch]]:
    """Return the index of a capture, and the descriptors of its splits (rows of PIECES) in order."""
    scans = SplitScans((), pieces_blob)
    found = index_captures([CaptureFile(str(path), path.name)], run=partial(one_by_one, scans=scans))
    kept = scans.end(found.splits)
    pieces = []
    for split in found.splits:
        if split.index in kept:
            pieces += numbered_pieces(split.index, kept[split.index])
        else:
            pieces += scan_step([pa.record_batch({"split": [split.index]})], found.splits, ())
    return found, pieces
