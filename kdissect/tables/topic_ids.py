"""Which topic an id means, and where a node listens: learnt from whatever messages have both side by side.

In come the columns of one side of a harvest, out come batches of the side tables `names` and `brokers`.
"""

import numpy as np
import pyarrow as pa

from kdissect.streams.processor import ExchangeBatch
from kdissect.tables.arrow_columns import (
    int_column,
    text_column,
    uuid_column,
)
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.schemas import BROKERS, NAMES

# The one topic whose id is the same in every cluster (KIP-595, KIP-516), and which no answer names.
KNOWN_NAMES = pa.record_batch([["AAAAAAAAAAAAAAAAAAAAAQ"], ["__cluster_metadata"]], schema=NAMES)


def named_topics(harvest: ExchangeBatch, side: MessageColumns) -> pa.RecordBatch:
    """Give the topic ids that come with a name, once each, as they first came."""
    rows = side.columns.partitions
    topic, topic_id = rows.spans("topic"), rows.spans("topic_id")
    both = np.flatnonzero((topic.start >= 0) & (topic_id.start >= 0))
    # A topic's partitions share its spans: one row per topic is enough.
    both = both[np.unique(topic_id.start[both], return_index=True)[1]]
    ids = uuid_column(harvest.arena, topic_id.start[both])
    names = text_column(harvest.arena, topic.start[both], topic.length[both])
    known = np.flatnonzero(ids.is_valid())
    return _each_once(pa.record_batch([ids, names], schema=NAMES).take(pa.array(known)))


def listening_nodes(harvest: ExchangeBatch, side: MessageColumns) -> pa.RecordBatch:
    """Give the nodes whose address a message tells, once each."""
    nodes = side.columns.nodes
    node_id, port, host = nodes.integers("node_id"), nodes.integers("port"), nodes.spans("host")
    # An answer with an error names no node: -1, no host.
    there = node_id.present & port.present & (node_id.values >= 0) & (port.values > 0)
    rows = pa.record_batch(
        [
            int_column(node_id.values[there], node_id.present[there], pa.int32()),
            text_column(harvest.arena, host.start[there], host.length[there]),
            int_column(port.values[there], port.present[there], pa.int32()),
        ],
        schema=BROKERS,
    )
    return _each_once(rows)


def _each_once(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Give each row once, where it first came. By codes: a query plan costs milliseconds, and there is a batch for every few."""
    number = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
        number = np.unique(number * (len(column) + 1) + codes, return_inverse=True)[1]
    return rows.take(pa.array(np.sort(np.unique(number, return_index=True)[1])))
