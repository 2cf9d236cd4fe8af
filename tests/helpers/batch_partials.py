"""Sums over the batches of a watch, made without Spark from a recorded capture."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from kdissect.capture.index.index import CaptureIndex, index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.report.build.recent_report import STEP_NS, endless_grid
from kdissect.report.partials import Partial, merge, summarise
from kdissect.report.timeline.grid import Grid
from kdissect.tables.dissection import AgeLimits, Dissection
from kdissect.tables.filters import TCP_TABLES
from tests.helpers.in_batches import WANTED, numbered, pieces_of

INCIDENTS = Path(__file__).parents[2] / "captures" / "incidents"
SUMMED = (*WANTED, "ends", *TCP_TABLES)
HOUR_NS = 3_600_000_000_000


class BatchPartials(NamedTuple):
    """The partials of one batch, and its span."""

    finished: Partial
    unfinished: Partial
    first_ns: int
    last_ns: int
    packets: int


def incident_index(name: str, folder: Path, batches: int) -> CaptureIndex:
    """Return the index of a recorded incident, with some splits for each batch."""
    (file,) = open_inputs([str(INCIDENTS / f"{name}.pcapng.zst")], str(folder)).files
    size = Path(file.path).stat().st_size // (2 * batches)
    return index_captures([file], size, range_bytes=size)


def grid_before(index: CaptureIndex) -> Grid:
    """Return an endless grid that begins before a capture."""
    return endless_grid((index.earliest_time_ns or 0) - 3 * STEP_NS)


def batch_partials(index: CaptureIndex, batches: int, grid: Grid) -> Iterator[BatchPartials]:
    """Yield what each batch of splits adds up."""
    carried = None
    edges = [len(index.splits) * number // batches for number in range(batches + 1)]
    for start, stop in pairwise(edges):
        splits = numbered(index.splits[start:stop])
        pieces = pieces_of(splits)
        dissection = Dissection(splits, wanted=SUMMED, carried=carried)
        tables = list(dissection.feed(pieces))
        last_ns = int(max(part["last_time_ns"].to_numpy().max() for part in pieces))
        first_ns = int(
            min(
                part.filter(part["piece"].to_numpy() >= 0)["first_time_ns"].to_numpy().min()
                for part in pieces
            )
        )
        over = dissection.aged(last_ns, AgeLimits(closed_ns=HOUR_NS)).rows
        tables += dissection.end(over)
        carried = dissection.carried(over)
        open_now = Dissection((), wanted=SUMMED, carried=carried)
        unfinished = open_now.end(open_now.every_row())
        packets = sum(split.packets for split in splits)
        yield BatchPartials(summed(tables, grid), summed(unfinished, grid), first_ns, last_ns, packets)


def summed(tables: Iterable[Mapping[str, pa.RecordBatch]], grid: Grid) -> Partial:
    """Return the partial of batches of tables."""
    return merge(summarise(dict(batch), None, grid) for batch in tables)
