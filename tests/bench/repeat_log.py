"""Repeats a replay log in time: for figures of more requests than one recording has.

    python -m tests.bench.repeat_log LOG OUT [--times 5]

Each repetition follows the one before, on connections of its own, with offsets and producers that go on. Its
frames are those of LOG, which must stay where it is.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.load.log_files import REQUESTS, ROWS, CapturedFile, LogFacts, open_log, write_facts
from kdissect.replay.load.log_merge import WINDOW_ROWS
from kdissect.replay.load.request_shapes import NO_SHAPE
from kdissect.replay.load.shaped_messages import FETCHED, NONE, PRODUCED, FetchedFacts, ProducedFacts

OFFSETS_APART = 1 << 32
CONNECTIONS_APART = 1 << 20
SHIFTED = {
    ApiKey.PRODUCE: (PRODUCED, [ProducedFacts._fields.index(name) for name in ("offset", "producer")]),
    ApiKey.FETCH: (FETCHED, [FetchedFacts._fields.index("following")]),
}


def main() -> None:
    """Write a log that has another one several times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--times", type=int, default=5)
    chosen = parser.parse_args()
    facts = open_log(chosen.log)
    chosen.out.mkdir(mode=0o700)
    rows = pq.ParquetFile(chosen.log / ROWS)
    shapes = 1 + max(
        pa.compute.max(rows.read_row_group(number, columns=["shape"])["shape"]).as_py()
        for number in range(rows.num_row_groups)
    )
    with pq.ParquetWriter(chosen.out / ROWS, REQUESTS, compression="lz4") as writer:
        for number in range(chosen.times):
            for group in range(rows.num_row_groups):
                table = moved(rows.read_row_group(group), number, shapes, span_ns(facts))
                writer.write_table(table, row_group_size=WINDOW_ROWS)
    write_facts(chosen.out, repeated(facts, chosen.log, chosen.times))


def span_ns(facts: LogFacts) -> int:
    """Return how long a repetition takes."""
    return facts.latest_ns - facts.earliest_ns + 1


def moved(table: pa.Table, number: int, shapes: int, span: int) -> pa.Table:
    """Return rows as a later repetition has them."""
    columns = {name: table[name].combine_chunks() for name in REQUESTS.names}
    for name in ("first_ns", "last_ns", "answered_ns"):
        times = columns[name].to_numpy().copy()
        times[times >= 0] += number * span
        columns[name] = pa.array(times)
    columns["connection"] = pa.array(columns["connection"].to_numpy() + number * CONNECTIONS_APART)
    own = columns["shape"].to_numpy().copy()
    own[own != NO_SHAPE] += number * shapes
    columns["shape"] = pa.array(own)
    columns["facts"] = moved_facts(columns["facts"], columns["key"].to_numpy(), number)
    return pa.table([columns[name].cast(REQUESTS.field(name).type) for name in REQUESTS.names], REQUESTS)


def moved_facts(facts: pa.ListArray, keys: np.ndarray, number: int) -> pa.ListArray:
    """Return facts whose offsets and producers belong to a later repetition."""
    edges = facts.offsets.to_numpy()
    values = facts.values.to_numpy().copy()
    for key, (width, places) in SHIFTED.items():
        own = np.repeat(keys == key, np.diff(edges))
        cells = values[own].reshape(-1, width)
        for place in places:
            column = cells[:, place]
            column[column > NONE] += number * OFFSETS_APART
        values[own] = cells.ravel()
    return pa.ListArray.from_arrays(facts.offsets, pa.array(values))


def repeated(facts: LogFacts, log: Path, times: int) -> LogFacts:
    """Return what the log of all repetitions says beside its rows."""
    frames = [log.absolute() / name for name in facts.frames]
    files = [
        CapturedFile(path.name, str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in frames
    ]
    return replace(
        facts,
        captures=[*facts.captures, *files],
        frames=[],
        latest_ns=facts.latest_ns + (times - 1) * span_ns(facts),
        connections={
            str(int(connection) + number * CONNECTIONS_APART): ends
            for number in range(times)
            for connection, ends in facts.connections.items()
        },
        requests=facts.requests * times,
    )


if __name__ == "__main__":
    main()
