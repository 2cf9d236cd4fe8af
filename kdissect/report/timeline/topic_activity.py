"""What exchanges did with topics, by step of time, API, client and broker."""

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import (
    Codes,
    TableColumns,
    encode,
    group_codes,
    group_rows,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import AnyColumn, take_rows
from kdissect.report.timeline.cells import activity_measures
from kdissect.report.timeline.exchange_columns import ExchangeColumns, make_timeline_table
from kdissect.report.timeline.timeline_tables import (
    CLIENT,
    ORDER,
    SERVER,
    TOPIC_ACTIVITY,
)

VOLUMES = ("records", "record_bytes")


def count_topic_activity(scene: ExchangeColumns, partitions: TableColumns, located: Ints) -> pa.Table:
    """Give the part TOPIC_MOMENTS; an exchange that names a topic in several partitions counts once for it."""
    named = (partitions.known("topic") | partitions.known("topic_id")) & (located >= 0)
    rows = np.flatnonzero(named)
    exchange = located[rows]
    keys = {name: take_rows(partitions.plain(name), rows) for name in ("topic", "topic_id", "api_key")}
    topic = group_rows(encode(keys["topic"]), encode(keys["topic_id"]))
    pairs = group_rows(group_codes(topic), Codes(exchange, scene.exchanges.rows))
    once = np.zeros(len(rows), bool)
    once[pairs.first] = True
    columns: dict[str, AnyColumn] = keys | scene.at(exchange, ("step", *CLIENT, *SERVER, "idle_wait", *ORDER))
    whole = {name: column[exchange] for name, column in activity_measures(scene).items()}
    columns["cell"] = whole.pop("cell")
    columns |= {name: np.where(once, column, 0) for name, column in whole.items()}
    columns |= {name: np.maximum(partitions.ints(name)[rows], 0) for name in VOLUMES}
    columns["errors"] = partitions.ints("error_code")[rows] != 0
    return make_timeline_table(TOPIC_ACTIVITY, columns)
