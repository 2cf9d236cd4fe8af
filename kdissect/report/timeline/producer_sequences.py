"""Who writes under which producer id, and the runs of sequence numbers of idempotent producers."""

import numpy as np
import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.column_rows import AnyColumn, ColumnRows
from kdissect.report.aggregate.grouping import Mask, TableColumns
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.timeline.exchange_columns import ExchangeColumns, make_timeline_table
from kdissect.report.timeline.timeline_tables import (
    CLIENT,
    ORDER,
    PRODUCERS,
    SEQUENCES,
)

MOST_RECORDS = 1 << 31  # of one batch; sequence numbers are int32 and begin again after the highest


def written_rows(partitions: TableColumns, exchange_rows: Ints) -> Mask:
    """Return the mask of rows of Produce requests with records."""
    written: Mask = (
        (exchange_rows >= 0) & (partitions.ints("api_key") == ApiKey.PRODUCE) & partitions.present("batches")
    )
    return written


def count_producers(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Ints) -> pa.Table:
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


def find_sequences(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Ints) -> pa.Table:
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
