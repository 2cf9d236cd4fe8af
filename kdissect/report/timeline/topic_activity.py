"""Exchanges by step of time, topic, API, client and broker."""

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.column_rows import AnyColumn, take_rows
from kdissect.report.aggregate.grouping import (
    Codes,
    TableColumns,
    encode,
    group_codes,
    group_rows,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.timeline.activity import activity_measures
from kdissect.report.timeline.exchange_columns import ExchangeColumns, make_timeline_table
from kdissect.report.timeline.timeline_tables import (
    CLIENT,
    ORDER,
    SERVER,
    TOPIC_ACTIVITY,
)

VOLUMES = ("records", "record_bytes")


def count_topic_activity(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Ints) -> pa.Table:
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
