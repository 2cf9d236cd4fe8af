"""What exchanges did with topics, by step of time, API, client and broker."""

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import (
    Coded,
    Columns,
    as_key,
    coded,
    grouped,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import Column, picked
from kdissect.report.timeline.cells import measures
from kdissect.report.timeline.exchange_columns import Scene, part_of
from kdissect.report.timeline.timeline_tables import (
    CLIENT,
    ORDER,
    SERVER,
    TOPIC_MOMENTS,
)

VOLUMES = ("records", "record_bytes")


def topic_moments(scene: Scene, partitions: Columns, located: Ints) -> pa.Table:
    """Give the part TOPIC_MOMENTS; an exchange that names a topic in several partitions counts once for it."""
    named = (partitions.known("topic") | partitions.known("topic_id")) & (located >= 0)
    rows = np.flatnonzero(named)
    exchange = located[rows]
    keys = {name: picked(partitions.plain(name), rows) for name in ("topic", "topic_id", "api_key")}
    topic = grouped(coded(keys["topic"]), coded(keys["topic_id"]))
    pairs = grouped(as_key(topic), Coded(exchange, scene.exchanges.rows))
    once = np.zeros(len(rows), bool)
    once[pairs.first] = True
    columns: dict[str, Column] = keys | scene.at(exchange, ("step", *CLIENT, *SERVER, "idle_wait", *ORDER))
    whole = {name: column[exchange] for name, column in measures(scene).items()}
    columns["cell"] = whole.pop("cell")
    columns |= {name: np.where(once, column, 0) for name, column in whole.items()}
    columns |= {name: np.maximum(partitions.ints(name)[rows], 0) for name in VOLUMES}
    columns["errors"] = partitions.ints("error_code")[rows] != 0
    return part_of(TOPIC_MOMENTS, columns)
