"""Which topic an id means, and where a node listens: learnt from whatever messages have both side by side.

In come the columns of one side of a harvest, out come batches of the side tables `names` and `brokers`.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.exchange.conversation import Harvest
from kdissect.exchange.sides import Side
from kdissect.exchange.spans import int_column, text_column, uuid_column
from kdissect.tables import BROKERS, NAMES

# The one topic whose id is the same in every cluster (KIP-595, KIP-516), and which no answer names.
KNOWN_NAMES = pa.record_batch([["AAAAAAAAAAAAAAAAAAAAAQ"], ["__cluster_metadata"]], schema=NAMES)


def named_topics(harvest: Harvest, side: Side) -> pa.RecordBatch:
    """Give the topic ids that come with a name, once each, as they first came."""
    rows = side.columns.partitions
    topic, topic_id = rows.spans("topic"), rows.spans("topic_id")
    both = np.flatnonzero((topic.start >= 0) & (topic_id.start >= 0))
    # A topic's partitions share its spans: one row per topic is enough.
    both = both[np.unique(topic_id.start[both], return_index=True)[1]]
    named = pa.table(
        {
            "topic_id": uuid_column(harvest.arena, topic_id.start[both]),
            "topic": text_column(harvest.arena, topic.start[both], topic.length[both]),
        },
        schema=NAMES,
    )
    named = named.filter(named["topic_id"].is_valid()).group_by(NAMES.names, use_threads=False).aggregate([])
    return _one_batch(named, NAMES)


def listening_nodes(harvest: Harvest, side: Side) -> pa.RecordBatch:
    """Give the nodes whose address a message tells, once each."""
    nodes = side.columns.nodes
    node_id, port, host = nodes.integers("node_id"), nodes.integers("port"), nodes.spans("host")
    rows = pa.table(
        {
            "node_id": int_column(node_id.values, node_id.present, pa.int32()),
            "host": text_column(harvest.arena, host.start, host.length),
            "port": int_column(port.values, port.present, pa.int32()),
        },
        schema=BROKERS,
    )
    # An answer with an error names no node: -1, no host.
    rows = rows.filter((pc.field("node_id") >= 0) & (pc.field("port") > 0))
    return _one_batch(rows.group_by(BROKERS.names).aggregate([]), BROKERS)


def _one_batch(rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    columns = [rows[name].combine_chunks() for name in schema.names]
    return pa.record_batch(columns, schema=schema)
