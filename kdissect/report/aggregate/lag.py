"""How far consumers are behind: at the first and the last fetch of each client and partition, and at most.

A Fetch request names the offset that it wants, and the response says where the partition ends (high
watermark). The difference is what is still to be read. There are two rows for each client and partition,
whatever the length of the capture.
"""

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.aggregate.chosen_partitions import chosen_partitions
from kdissect.report.aggregate.column_rows import AnyColumn, take_rows
from kdissect.report.aggregate.group_sums import highest_values, lowest_values
from kdissect.report.aggregate.grouping import RowGroups, TableColumns
from kdissect.report.aggregate.partial_rows import join_leaders, no_rows, part_table
from kdissect.report.aggregate.partial_tables import LAGS
from kdissect.report.aggregate.partition_classes import PLACE, partition_classes
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.coded_text import repeat_text

EDGES = (("first", 1), ("last", -1))


def count_lags(partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s) -> ArrayBatch:
    """Return the rows of LAGS."""
    rows = chosen_partitions(partitions, exchanges, exchange_rows).lags
    if not len(rows):
        return no_rows(LAGS)
    end, start = partitions.ints("high_watermark"), partitions.ints("offset")
    exchange = exchange_rows[rows]
    lag = np.maximum(end[rows] - start[rows], 0)
    time = exchanges.coalesce("response_first_ns", "request_first_ns")[exchange]
    classes = partition_classes(partitions, exchanges, exchange_rows)
    groups = classes.grouped(rows, classes.group(PLACE, ("connection", "client_id")))
    tables = [
        _edge(edge, sign * time, lag, rows, exchange, groups, partitions, exchanges) for edge, sign in EDGES
    ]
    return join_leaders(LAGS, tables, apart=True)


def _edge(
    edge: str,
    order: Int64s,
    lag: Int64s,
    rows: Int64s,
    exchange: Int64s,
    groups: RowGroups,
    partitions: TableColumns,
    exchanges: TableColumns,
) -> ArrayBatch:
    """Return all rows of the first time of each group, one of them with the count of the group."""
    best, most = lowest_values(groups, order), highest_values(groups, lag)
    kept = np.flatnonzero(order == best[groups.of])
    group, leaders = np.unique(groups.of[kept], return_index=True)
    exchanges_of = np.zeros(len(kept), np.int64)
    exchanges_of[leaders] = np.bincount(groups.of, minlength=groups.count)[group]
    made: dict[str, AnyColumn] = {"edge": repeat_text(edge, len(kept)), "exchanges": exchanges_of}
    for name in ("topic", "topic_id", "partition"):
        made[name] = take_rows(partitions.column(name), rows[kept])
    for name in ("connection", "client_id", "capture_file", "request_packet", "response_packet"):
        made[name] = take_rows(exchanges.column(name), exchange[kept])
    made |= {"order_ns": order[kept], "lag": lag[kept], "most": most[groups.of[kept]]}
    return part_table(LAGS, made)
