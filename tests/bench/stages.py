"""Time the stages alone, without Spark, in one process on one core: `python -m tests.bench.stages CAPTURE`.

Each stage is given what the one before it made, slice of the capture by slice, as a worker would; figures are
processor seconds of this process, and the best of the runs. The first run, which loads the compiled loops,
does not count.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.protocol.schema.registry import highest_versions
from kdissect.report.partials import summarise
from kdissect.spark.arrow_ipc import to_blob
from kdissect.spark.joined_batches import coalesce_batches
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.tables.build import dissect_batches
from tests.bench.one_walk import index_and_pieces


def one_core() -> None:
    """Stay on one core from now on."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def timed(work: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """Return the best time of some runs, and what the last gave."""
    best, given = float("inf"), None
    for _ in range(runs):
        given = None
        began = time.process_time()
        given = work()
        best = min(best, time.process_time() - began)
    return best, given


def stages(path: Path, runs: int) -> dict[str, Any]:
    """Measure the stages on a capture."""
    walking, (found, pieces) = timed(lambda: index_and_pieces(path), runs + 1)
    splits = found.splits

    def pair() -> int:
        conversations = new_flow_processor(splits, np.array(highest_versions(), np.int64), tokens=True)
        count = 0
        for of_split in pieces:
            rows = of_split.filter(pa.array(of_split["piece"].to_numpy() >= 0))
            count += sum(len(harvest.exchanges) for harvest in conversations.feed(rows))
        return count + sum(len(harvest.exchanges) for harvest in conversations.close())

    def columns() -> int:
        return sum(tables["exchanges"].num_rows for tables in batches() if "exchanges" in tables)

    def batches(reads_all: bool = True) -> Iterator[Any]:
        yield from dissect_batches(pieces, splits, reads_all=reads_all)

    def figures() -> int:
        return len([summarise(tables) for tables in coalesce_batches(batches(reads_all=False))])

    pairing, exchanges = timed(pair, runs + 1)
    with_columns, _ = timed(columns, runs + 1)
    with_figures, _ = timed(figures, runs + 1)
    size = path.stat().st_size
    return {
        "capture": path.name,
        "bytes": size,
        "exchanges": exchanges,
        "packets": found.packets,
        "descriptor_bytes": sum(len(to_blob(of_split)) for of_split in pieces),
        "seconds": {
            "index and pass one": walking,
            "reassembly, framing, pairing": pairing,
            "the same with all columns": with_columns,
            "the same with figures": with_figures,
        },
    }


def main() -> None:
    """Run the command line; the figures go to standard output as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("capture", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    chosen = parser.parse_args()
    one_core()
    print(json.dumps(stages(chosen.capture, chosen.runs)))


if __name__ == "__main__":
    main()
