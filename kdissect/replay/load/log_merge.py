"""The parts of a replay log, merged into one in time order.

In: the files that tasks have written (`log_part`), and their facts. Out: a complete log in the same folder.
Rows are merged window by window of time, so memory holds a window of each part, however long the capture is.
Files of frames stay as they are, under a number in the log. Files that belong to no part are removed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kdissect.replay.load.log_files import FRAMES, ORDER, REQUESTS, ROWS, LogFacts, write_facts
from kdissect.replay.load.log_part import OWN_FRAMES, PART
from kdissect.replay.load.request_shapes import NO_SHAPE

WINDOW_ROWS = 1 << 16


def merge_parts(folder: Path, parts: Sequence[Mapping[str, Any]], facts: LogFacts) -> None:
    """Merge all parts in a folder, and write the facts of the log; `facts` has what the captures tell."""
    for number, part in enumerate(parts):
        for identity, name in part["topics"].items():
            facts.topics.setdefault(identity, name)
        for node, ends in part["nodes"].items():
            known = facts.nodes.setdefault(node, [])
            known += [(host, port) for host, port in ends if (host, port) not in known]
        facts.connections |= part["connections"]
        facts.orphans += part["orphans"]
        facts.unread_tls += part["unread_tls"]
        facts.requests += part["requests"]
        facts.frames.append(f"{number}{FRAMES}")
        (folder / (part["name"] + FRAMES)).rename(folder / facts.frames[-1])
    with pq.ParquetWriter(folder / ROWS, REQUESTS, compression="lz4") as writer:
        for rows in _windows(folder, parts, len(facts.captures)):
            writer.write_table(rows, row_group_size=WINDOW_ROWS)
    write_facts(folder, facts)
    for left in folder.glob(f"{PART}-*"):
        left.unlink()


def _windows(folder: Path, parts: Sequence[Mapping[str, Any]], captures: int) -> Iterator[pa.Table]:
    """Yield the rows of all parts in order, some ten thousand at a time."""
    shapes = np.cumsum([0, *(part["shapes"] for part in parts)]).tolist()
    runs = [(folder / run, number) for number, part in enumerate(parts) for run in part["runs"]]
    times: list[NDArray[np.int64]] = [
        pq.read_table(path, columns=["first_ns"])["first_ns"].to_numpy() for path, _ in runs
    ]
    every = np.sort(np.concatenate([*times, np.empty(0, np.int64)]))
    bounds = np.unique(every[WINDOW_ROWS::WINDOW_ROWS]).tolist()
    firsts = [int(each[0]) for each in times]
    readers = [
        _RunReader(path, first_ns, captures + number, shapes[number])
        for (path, number), first_ns in zip(runs, firsts, strict=True)
    ]
    del times, every
    for bound in [*bounds, None]:
        rows = (
            pa.concat_tables([reader.before(bound) for reader in readers])
            if readers
            else REQUESTS.empty_table()
        )
        yield rows.sort_by([(name, "ascending") for name in ORDER])


class _RunReader:
    """Reads the rows of one run of a part, window by window."""

    def __init__(self, path: Path, first_ns: int, frames: int, shapes: int) -> None:
        """`frames` is the number of the part's own frames in the log, `shapes` that of its first shape."""
        self._path, self._first_ns = path, first_ns
        self._batches: Iterator[pa.RecordBatch] | None = None  # opened when the first rows are due
        self._frames, self._shapes = frames, shapes
        self._left = REQUESTS.empty_table()  # rows that were read and belong to later windows

    def before(self, bound_ns: int | None) -> pa.Table:
        """Return the next rows that began before a time, all that are left if it is None."""
        if self._batches is None:
            if bound_ns is not None and self._first_ns >= bound_ns:
                return self._left
            self._batches = pq.ParquetFile(self._path, pre_buffer=False).iter_batches(WINDOW_ROWS // 4)
        taken = []
        while True:
            times = self._left["first_ns"].to_numpy()
            count = len(times) if bound_ns is None else int(np.searchsorted(times, bound_ns))
            taken.append(self._left.slice(0, count))
            self._left = self._left.slice(count)
            if len(self._left):
                break
            batch = next(self._batches, None)
            if batch is None:
                self._batches = iter(())  # its buffers are given back
                break
            self._left = self._numbered(pa.Table.from_batches([batch]).cast(REQUESTS))
        return pa.concat_tables(taken)

    def _numbered(self, rows: pa.Table) -> pa.Table:
        for name in ("request_file", "response_file"):
            place = REQUESTS.get_field_index(name)
            own = pc.equal(rows[name], OWN_FRAMES)
            rows = rows.set_column(
                place, REQUESTS.field(place), pc.if_else(own, pa.scalar(self._frames, pa.int32()), rows[name])
            )
        place = REQUESTS.get_field_index("shape")
        shape = rows["shape"]
        numbered = pc.if_else(
            pc.equal(shape, NO_SHAPE), shape, pc.add(shape, pa.scalar(self._shapes, pa.int32()))
        )
        return rows.set_column(place, REQUESTS.field(place), numbered)
