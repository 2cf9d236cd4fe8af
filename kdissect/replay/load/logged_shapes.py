"""The shapes of all requests of a log, and their facts, which are read from its file as often as wanted.

A request has 24 bytes of facts and more, so they are never in memory as a whole (see `request_shapes`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kdissect.array_types import Int32s, Int64s
from kdissect.replay.load.frame_places import ranges
from kdissect.replay.load.request_table import ROWS_AT_ONCE


class RequestFacts(NamedTuple):
    """The facts of requests that follow each other, those of `first` first."""

    first: int
    edges: Int64s  # where those of each begin in `values`, and where the last ones end
    values: Int64s

    def counts(self, requests: Int64s) -> Int64s:
        """Return how many numbers each of some requests has, which are among these."""
        places = requests - self.first
        counts: Int64s = self.edges[places + 1] - self.edges[places]
        return counts

    def rows(self, requests: Int64s, width: int) -> tuple[Int64s, Int64s]:
        """Return the facts of some requests as rows of a width, and the request of each row."""
        counts = self.counts(requests)
        rows = self.values[ranges(self.edges[requests - self.first], counts)].reshape(-1, width)
        return rows, np.repeat(requests, counts // width)


@dataclass(frozen=True, slots=True)
class LoggedShapes:
    """The shape of each request, and the file with their facts."""

    shapes: Int32s
    file: pq.ParquetFile

    def facts(self) -> Iterator[RequestFacts]:
        """Yield the facts of all requests, of many at a time."""
        first = 0
        for batch in self.file.iter_batches(ROWS_AT_ONCE, columns=["facts"]):
            lists = batch["facts"]
            edges = np.zeros(len(lists) + 1, np.int64)
            np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False), out=edges[1:])
            yield RequestFacts(first, edges, lists.flatten().to_numpy().astype(np.int64, copy=False))
            first += len(lists)
