"""Load of clients by step of time and partition: records and bytes, and the offsets that they fetch from."""

import numpy as np
import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.report.aggregate.column_rows import AnyColumn, ColumnRows
from kdissect.report.aggregate.grouping import TableColumns, sound_latencies
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.timeline.exchange_columns import ExchangeColumns, make_timeline_table
from kdissect.report.timeline.signal_tables import LOAD, READS
from kdissect.report.timeline.timeline_tables import CLIENT, ORDER

FASTEST_NS = 200_000
"""Latencies below this count as this: what is below is noise of the clock and of the scheduler."""

PARTITION = ("topic", "topic_id", "partition")


def count_load(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Ints) -> pa.Table:
    """Return the rows of LOAD."""
    key = partitions.ints("api_key")
    wanted = (exchange_rows >= 0) & in_apis(key, (ApiKey.PRODUCE, ApiKey.FETCH))
    wanted &= partitions.present("batches") & (partitions.ints("batches") > 0)
    rows = np.flatnonzero(wanted)
    columns = _columns(source, partitions, exchange_rows, rows)
    columns |= source.at(exchange_rows[rows], ("step", "api_key"))
    columns |= {name: np.maximum(partitions.ints(name)[rows], 0) for name in ("batches", "records")}
    latency, sound = sound_latencies(source.exchanges)
    timed = (sound & ~source.exchanges.bools("idle_wait"))[exchange_rows[rows]]
    octaves = 1000 * np.log2(np.maximum(latency[exchange_rows[rows]], FASTEST_NS))
    columns["timed"] = timed.astype(np.int64)
    columns["octaves_1000"] = np.where(timed, np.rint(octaves), 0).astype(np.int64)
    return make_timeline_table(LOAD, columns)


def count_reads(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Ints) -> pa.Table:
    """Return the rows of READS."""
    wanted = (exchange_rows >= 0) & (partitions.ints("api_key") == ApiKey.FETCH)
    wanted &= partitions.present("offset") & (partitions.ints("record_bytes") > 0)
    wanted &= partitions.ints("error_code") == 0
    rows = np.flatnonzero(wanted)
    rows = rows[~source.exchanges.present("replica_id")[exchange_rows[rows]]]
    columns = _columns(source, partitions, exchange_rows, rows)
    columns["offset"] = partitions.ints("offset")[rows]
    return make_timeline_table(READS, columns)


def _columns(
    source: ExchangeColumns, partitions: TableColumns, exchange_rows: Ints, rows: Ints
) -> dict[str, AnyColumn]:
    exchange = exchange_rows[rows]
    columns: dict[str, AnyColumn] = {name: ColumnRows(partitions.column(name), rows) for name in PARTITION}
    columns |= source.at(exchange, (*CLIENT, *ORDER))
    columns |= {"first_ns": source.begin[exchange], "last_ns": source.begin[exchange]}
    columns["record_bytes"] = np.maximum(partitions.ints("record_bytes")[rows], 0)
    return columns | {"exchanges": np.ones(len(rows), np.int64)}
