"""All tables of the timeline from batches of the public tables: who did what in which step of time.

Two of them are made here: runs of sequence numbers by producer id and client, and exchanges by step of time,
topic, API, client and broker.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.column_rows import AnyColumn, ColumnRows, take_rows
from kdissect.report.aggregate.grouping import Codes, TableColumns, encode, group_codes, group_rows
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.timeline.activity import (
    activity_measures,
    count_activity,
    count_failures,
)
from kdissect.report.timeline.count_examples import count_examples
from kdissect.report.timeline.count_side_tables import EVENTS
from kdissect.report.timeline.exchange_columns import (
    ExchangeColumns,
    connection_ends,
    exchange_columns,
    make_timeline_table,
)
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.positions import find_positions
from kdissect.report.timeline.timeline_tables import (
    ACTIVITY,
    CLIENT,
    FAILURES,
    GROUP_CLIENTS,
    ORDER,
    POSITIONS,
    PRODUCERS,
    SEQUENCES,
    SERVER,
    TIMELINE_TABLES,
    TOPIC_ACTIVITY,
)
from kdissect.tables.array_batch import ArrayBatch

SOURCE_TABLES = ("ends", *EVENTS)
"""The optional tables that the timeline is counted from."""

MOST_RECORDS = 1 << 31  # of one batch; sequence numbers are int32 and begin again after the highest

VOLUMES = ("records", "record_bytes")


def count_timeline(
    tables: Mapping[str, pa.RecordBatch | pa.Table],
    exchanges: TableColumns,
    partitions: TableColumns,
    exchange_rows: Int64s,
    grid: Grid,
) -> dict[str, pa.Table | ArrayBatch]:
    """Return the tables of the timeline by name."""
    ends = connection_ends(tables)
    source = exchange_columns(exchanges, ends, grid)
    counts = {
        ACTIVITY.name: count_activity(source),
        FAILURES.name: count_failures(source, partitions, exchange_rows),
        GROUP_CLIENTS.name: _group_clients(source),
        TOPIC_ACTIVITY.name: count_topic_activity(source, partitions, exchange_rows),
        POSITIONS.name: find_positions(POSITIONS, source, partitions, exchange_rows),
        PRODUCERS.name: count_producers(source, partitions, exchange_rows),
        SEQUENCES.name: find_sequences(source, partitions, exchange_rows),
    }
    limited = {name: limit_rows(TIMELINE_TABLES[name], rows) for name, rows in counts.items()}
    return limited | count_examples(source, partitions, exchange_rows, grid.start_ns)


def _group_clients(source: ExchangeColumns) -> ArrayBatch:
    exchanges = source.exchanges
    rows = np.flatnonzero(exchanges.present("group_id"))
    columns = source.at(rows, ("group_id", *CLIENT, "api_key", *ORDER))
    columns |= {
        "exchanges": np.ones(len(rows), np.int64),
        "error_responses": exchanges.ints("error_code")[rows] != 0,
    }
    return make_timeline_table(GROUP_CLIENTS, columns)


def written_rows(partitions: TableColumns, exchange_rows: Int64s) -> Bools:
    """Return the mask of rows of Produce requests with records."""
    written: Bools = (
        (exchange_rows >= 0) & (partitions.ints("api_key") == ApiKey.PRODUCE) & partitions.present("batches")
    )
    return written


def count_producers(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Int64s) -> ArrayBatch:
    """Return the rows of PRODUCERS."""
    rows = np.flatnonzero(written_rows(partitions, exchange_rows))
    exchange = exchange_rows[rows]
    columns: dict[str, AnyColumn] = {
        name: ColumnRows(partitions.column(name), rows) for name in ("producer_id", "producer_epoch")
    }
    columns |= source.at(exchange, (*CLIENT, "transactional_id", *ORDER))
    columns |= {
        name: np.maximum(partitions.ints(name)[rows], 0) for name in ("batches", "records", "record_bytes")
    }
    columns |= {"errors": partitions.ints("error_code")[rows] != 0, "first_ns": source.begin[exchange]}
    columns |= {"last_ns": source.begin[exchange], "exchanges": np.ones(len(rows), np.int64)}
    return make_timeline_table(PRODUCERS, columns)


def find_sequences(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Int64s) -> ArrayBatch:
    """Return the rows of SEQUENCES, before runs are joined."""
    start, records = partitions.ints("base_sequence"), partitions.ints("records")
    mask = (
        written_rows(partitions, exchange_rows)
        & partitions.present("producer_id")
        & partitions.present("partition")
    )
    mask &= (partitions.ints("producer_id") >= 0) & (start >= 0) & (records > 0) & (records < MOST_RECORDS)
    rows = np.flatnonzero(mask)
    columns: dict[str, AnyColumn] = {
        name: ColumnRows(partitions.column(name), rows)
        for name in ("producer_id", "producer_epoch", "topic", "topic_id", "partition", "batches", "records")
    }
    columns |= source.at(exchange_rows[rows], ORDER)
    return make_timeline_table(SEQUENCES, columns | {"start": start[rows], "stop": (start + records)[rows]})


def count_topic_activity(
    source: ExchangeColumns, partitions: TableColumns, exchange_rows: Int64s
) -> ArrayBatch:
    """Return the rows of TOPIC_ACTIVITY; an exchange counts once for each topic that it names."""
    named = (partitions.present("topic") | partitions.present("topic_id")) & (exchange_rows >= 0)
    rows = np.flatnonzero(named)
    exchange = exchange_rows[rows]
    keys = {name: take_rows(partitions.column(name), rows) for name in ("topic", "topic_id", "api_key")}
    topic = group_rows(encode(keys["topic"]), encode(keys["topic_id"]))
    pairs = group_rows(group_codes(topic), Codes(exchange, source.exchanges.rows))
    once = np.zeros(len(rows), bool)
    once[pairs.first] = True
    columns: dict[str, AnyColumn] = keys | source.at(
        exchange, ("step", *CLIENT, *SERVER, "idle_wait", *ORDER)
    )
    whole = {name: column[exchange] for name, column in activity_measures(source).items()}
    columns["cell"] = whole.pop("cell")
    columns |= {name: np.where(once, column, 0) for name, column in whole.items()}
    columns |= {name: np.maximum(partitions.ints(name)[rows], 0) for name in VOLUMES}
    columns["errors"] = partitions.ints("error_code")[rows] != 0
    return make_timeline_table(TOPIC_ACTIVITY, columns)
