"""How far consumers are behind: of each client and partition the first and the last fetch, and the farthest of all.

A fetch asks from an offset on and is told where the partition ends (high watermark): the difference is what is still to be
read. Two rows for each client and partition, whatever the length of the capture.
"""

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import (
    NOWHERE,
    Coded,
    Columns,
    Groups,
    as_key,
    coded,
    grouped,
    narrow,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import (
    LAGS,
    Column,
    picked,
    rollup,
)

FETCH = 1
EDGES = (("first", 1), ("last", -1))


def count_lags(partitions: Columns, exchanges: Columns, located: Ints, caller: Groups) -> pa.Table:
    """Give the part LAGS."""
    end, start = partitions.ints("high_watermark"), partitions.ints("offset")
    told = partitions.known("high_watermark") & (end >= 0) & partitions.known("offset") & (start >= 0)
    told &= (partitions.ints("api_key") == FETCH) & (partitions.ints("error_code") == 0) & (located >= 0)
    rows = np.flatnonzero(told & partitions.known("partition"))
    if not len(rows):
        return LAGS.schema.empty_table()
    of = located[rows]
    lag = np.maximum(end[rows] - start[rows], 0)
    time = exchanges.either("response_first_ns", "request_first_ns")[of]
    topic = grouped(*(coded(picked(partitions.plain(name), rows)) for name in ("topic", "topic_id")))
    groups = grouped(
        Coded(as_key(caller).numbers[of], caller.count),
        as_key(topic),
        narrow(partitions.ints("partition")[rows]),
    )
    found = [_edge(edge, sign * time, lag, rows, of, groups, partitions, exchanges) for edge, sign in EDGES]
    return rollup(LAGS, pa.concat_tables(found))


def _edge(
    edge: str,
    order: Ints,
    lag: Ints,
    rows: Ints,
    of: Ints,
    groups: Groups,
    partitions: Columns,
    exchanges: Columns,
) -> pa.Table:
    """Keep of each group all rows of the first time, one of them with the count of the group."""
    best = np.full(groups.count, NOWHERE.max)
    np.minimum.at(best, groups.of, order)
    most = np.zeros(groups.count, np.int64)
    np.maximum.at(most, groups.of, lag)
    kept = np.flatnonzero(order == best[groups.of])
    group, leaders = np.unique(groups.of[kept], return_index=True)
    exchanges_of = np.zeros(len(kept), np.int64)
    exchanges_of[leaders] = np.bincount(groups.of, minlength=groups.count)[group]
    made: dict[str, Column] = {"edge": pa.repeat(pa.scalar(edge), len(kept)), "exchanges": exchanges_of}
    for name in ("topic", "topic_id", "partition"):
        made[name] = picked(partitions.plain(name), rows[kept])
    for name in ("connection", "client_id", "capture_file", "request_packet", "response_packet"):
        made[name] = picked(exchanges.plain(name), of[kept])
    made |= {"order_ns": order[kept], "lag": lag[kept], "most": most[groups.of[kept]]}
    return pa.table({name: made[name] for name in LAGS.schema.names}).cast(LAGS.schema)
